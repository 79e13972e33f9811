module @jit_step attributes {jax.result_info = "of_the_module", mhlo.layout_mode = "default"} {
  func.func public @main(%arg0: tensor<4xf32> {mhlo.layout_mode = "default"}, %arg1: tensor<4xf32> {mhlo.layout_mode = "{0}"}) -> (tensor<4xf32> {jax.result_info = "of_a_result", mhlo.layout_mode = "default"}) attributes {jax.result_info = "of_the_function", mhlo.layout_mode = "default"} {
    %0 = stablehlo.custom_call @target(%arg0) {has_side_effect = true, jax.result_info = "of_a_call", mhlo.layout_mode = "default"} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.add %0, %arg1 {mhlo.layout_mode = "default", is_stable = false} : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
