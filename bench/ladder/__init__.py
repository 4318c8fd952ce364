"""A ladder of models that others have trained, from the demo's classifier up: `python -m bench.ladder` runs it. `rungs` has the models,
`networks` those that are made here from parameters alone, `inputs` what they are run on, `weights` where their files come from."""
