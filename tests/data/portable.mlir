module @jit_step {
  func.func public @main(%arg0: tensor<4x8xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<8x4xf32>) -> (tensor<4x8xf32> {jax.result_info = "result"}, tensor<4xi1>) {
    %c = stablehlo.constant dense<[true, false, true, true]> : tensor<4xi1>
    %cst = stablehlo.constant dense<[[1.500000e+00, -2.000000e+00], [0.000000e+00, 7.250000e+00]]> : tensor<2x2xf32>
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [HIGHEST, DEFAULT] : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %1 = stablehlo.tanh %0 : tensor<4x4xf32>
    %2 = stablehlo.slice %1 [0:4, 0:2] : (tensor<4x4xf32>) -> tensor<4x2xf32>
    %3 = stablehlo.dot_general %2, %cst, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.pad %3, %cst_0, low = [0, 0], high = [0, 6], interior = [0, 0] : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x8xf32>
    %5 = call @relu(%4) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %6 = "stablehlo.all_reduce"(%5) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 0>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %7 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %7 : tensor<f32>
    }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %6, %c : tensor<4x8xf32>, tensor<4xi1>
  }
  func.func private @relu(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
}
