"""The main job: a tinygrad network classifies scikit-learn's handwritten digits on the device."""
