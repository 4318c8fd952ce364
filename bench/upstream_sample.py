"""Cases of test_ops, some of each category, that run on both engines: `python -m bench.upstream CHECKOUT test_ops --sample`."""
from __future__ import annotations

SAMPLE = """
full eye arange split linspace tril
sum_pad_collapse where where_permute cmp_eq cmp_lt trunc round isnan maximum
tiny_add add3 broadcasted_add_2 sub mul div div_int mod mul_naninf pow_const int_pow_const_int sqrt rsqrt
xor bitwise_not lshift rshift_signed idiv_shift_rewrite_negative
sin cos atan relu leaky_relu silu log2 exp sign_exact copysign sigmoid softplus erf gelu elu mish tanh_extreme
small_cumsum simple_cumprod small_cummax argmax sort topk
einsum_trace dot_1d matmul_simple matmul_batched_vector small_gemm small_gemm_padded gemm_fp16 matvec
sum prod max any_axis mean_axis var_axis softmax log_softmax logsumexp
slice_negative_strides pad pad_reflect_mode permute flip diagonal roll expand
simple_conv2d_bias simple_conv_transpose2d conv1d depthwise_conv2d dilated_conv2d padded_conv2d_1x1
max_pool2d_padding avg_pool2d_padding interpolate_bilinear cat stack repeat_interleave
inf_where slice_fancy_indexing_list_indices gather scatter scatter_add scaled_dot_product_attention_causal
cross_entropy_smoothing nll_loss one_hot masked_fill cast bitcast
""".split()
"""Names without `test_`."""
