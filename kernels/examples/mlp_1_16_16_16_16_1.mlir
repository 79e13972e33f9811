module @jit_loss attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x16xf32>, %arg1: tensor<16xf32>, %arg2: tensor<16x16xf32>, %arg3: tensor<16xf32>, %arg4: tensor<16x16xf32>, %arg5: tensor<16xf32>, %arg6: tensor<16x16xf32>, %arg7: tensor<16xf32>, %arg8: tensor<16x1xf32>, %arg9: tensor<1xf32>, %arg10: tensor<128x1xf32>, %arg11: tensor<128x1xf32>) -> (tensor<f32> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg10, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x1xf32>, tensor<1x16xf32>) -> tensor<128x16xf32>
    %1 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<128x16xf32>
    %3 = stablehlo.add %0, %2 : tensor<128x16xf32>
    %4 = call @relu(%3) : (tensor<128x16xf32>) -> tensor<128x16xf32>
    %5 = stablehlo.dot_general %4, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x16xf32>, tensor<16x16xf32>) -> tensor<128x16xf32>
    %6 = stablehlo.broadcast_in_dim %arg3, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<128x16xf32>
    %8 = stablehlo.add %5, %7 : tensor<128x16xf32>
    %9 = call @relu(%8) : (tensor<128x16xf32>) -> tensor<128x16xf32>
    %10 = stablehlo.dot_general %9, %arg4, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x16xf32>, tensor<16x16xf32>) -> tensor<128x16xf32>
    %11 = stablehlo.broadcast_in_dim %arg5, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<128x16xf32>
    %13 = stablehlo.add %10, %12 : tensor<128x16xf32>
    %14 = call @relu(%13) : (tensor<128x16xf32>) -> tensor<128x16xf32>
    %15 = stablehlo.dot_general %14, %arg6, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x16xf32>, tensor<16x16xf32>) -> tensor<128x16xf32>
    %16 = stablehlo.broadcast_in_dim %arg7, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<128x16xf32>
    %18 = stablehlo.add %15, %17 : tensor<128x16xf32>
    %19 = call @relu(%18) : (tensor<128x16xf32>) -> tensor<128x16xf32>
    %20 = stablehlo.dot_general %19, %arg8, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x16xf32>, tensor<16x1xf32>) -> tensor<128x1xf32>
    %21 = stablehlo.broadcast_in_dim %arg9, dims = [1] : (tensor<1xf32>) -> tensor<1x1xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<128x1xf32>
    %23 = stablehlo.add %20, %22 : tensor<128x1xf32>
    %24 = stablehlo.subtract %23, %arg11 : tensor<128x1xf32>
    %25 = stablehlo.multiply %24, %24 : tensor<128x1xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %26 = stablehlo.reduce(%25 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<128x1xf32>, tensor<f32>) -> tensor<f32>
    %cst_0 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %27 = stablehlo.divide %26, %cst_0 : tensor<f32>
    return %27 : tensor<f32>
  }
  func.func private @relu(%arg0: tensor<128x16xf32>) -> tensor<128x16xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<128x16xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<128x16xf32>
    return %1 : tensor<128x16xf32>
  }
}
