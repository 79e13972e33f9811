module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x8xf32>, %arg1: tensor<8xf32>, %arg2: tensor<8x8xf32>, %arg3: tensor<8xf32>, %arg4: tensor<8x2xf32>, %arg5: tensor<2xf32>, %arg6: tensor<16x4xf32>, %arg7: tensor<16x2xf32>) -> (tensor<4x8xf32> {jax.result_info = "result[0][0]"}, tensor<8xf32> {jax.result_info = "result[0][1]"}, tensor<8x8xf32> {jax.result_info = "result[1][0]"}, tensor<8xf32> {jax.result_info = "result[1][1]"}, tensor<8x2xf32> {jax.result_info = "result[2][0]"}, tensor<2xf32> {jax.result_info = "result[2][1]"}) {
    %0 = stablehlo.dot_general %arg6, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
    %1 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<16x8xf32>
    %3 = stablehlo.add %0, %2 : tensor<16x8xf32>
    %4 = stablehlo.tanh %3 : tensor<16x8xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %6 = stablehlo.subtract %5, %4 : tensor<16x8xf32>
    %7 = stablehlo.dot_general %4, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %8 = stablehlo.broadcast_in_dim %arg3, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<16x8xf32>
    %10 = stablehlo.add %7, %9 : tensor<16x8xf32>
    %11 = stablehlo.tanh %10 : tensor<16x8xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %13 = stablehlo.subtract %12, %11 : tensor<16x8xf32>
    %14 = stablehlo.dot_general %11, %arg4, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<8x2xf32>) -> tensor<16x2xf32>
    %15 = stablehlo.broadcast_in_dim %arg5, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<16x2xf32>
    %17 = stablehlo.add %14, %16 : tensor<16x2xf32>
    %18 = stablehlo.tanh %17 : tensor<16x2xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<16x2xf32>
    %20 = stablehlo.subtract %19, %18 : tensor<16x2xf32>
    %21 = stablehlo.subtract %18, %arg7 : tensor<16x2xf32>
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<16x2xf32>
    %23 = stablehlo.multiply %22, %21 : tensor<16x2xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_4 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %24 = stablehlo.divide %cst_3, %cst_4 : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %24, dims = [] : (tensor<f32>) -> tensor<16x2xf32>
    %26 = stablehlo.multiply %25, %23 : tensor<16x2xf32>
    %27 = stablehlo.multiply %26, %20 : tensor<16x2xf32>
    %28 = stablehlo.multiply %27, %18 : tensor<16x2xf32>
    %29 = stablehlo.add %27, %28 : tensor<16x2xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %30 = stablehlo.reduce(%29 init: %cst_5) applies stablehlo.add across dimensions = [0] : (tensor<16x2xf32>, tensor<f32>) -> tensor<2xf32>
    %31 = stablehlo.reshape %30 : (tensor<2xf32>) -> tensor<1x2xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %32 = stablehlo.reduce(%31 init: %cst_6) applies stablehlo.add across dimensions = [0] : (tensor<1x2xf32>, tensor<f32>) -> tensor<2xf32>
    %33 = stablehlo.dot_general %29, %11, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x2xf32>, tensor<16x8xf32>) -> tensor<2x8xf32>
    %34 = stablehlo.transpose %33, dims = [1, 0] : (tensor<2x8xf32>) -> tensor<8x2xf32>
    %35 = stablehlo.dot_general %29, %arg4, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x2xf32>, tensor<8x2xf32>) -> tensor<16x8xf32>
    %36 = stablehlo.multiply %35, %13 : tensor<16x8xf32>
    %37 = stablehlo.multiply %36, %11 : tensor<16x8xf32>
    %38 = stablehlo.add %36, %37 : tensor<16x8xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %39 = stablehlo.reduce(%38 init: %cst_7) applies stablehlo.add across dimensions = [0] : (tensor<16x8xf32>, tensor<f32>) -> tensor<8xf32>
    %40 = stablehlo.reshape %39 : (tensor<8xf32>) -> tensor<1x8xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %41 = stablehlo.reduce(%40 init: %cst_8) applies stablehlo.add across dimensions = [0] : (tensor<1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %42 = stablehlo.dot_general %38, %4, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %43 = stablehlo.transpose %42, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %44 = stablehlo.dot_general %38, %arg2, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %45 = stablehlo.multiply %44, %6 : tensor<16x8xf32>
    %46 = stablehlo.multiply %45, %4 : tensor<16x8xf32>
    %47 = stablehlo.add %45, %46 : tensor<16x8xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %48 = stablehlo.reduce(%47 init: %cst_9) applies stablehlo.add across dimensions = [0] : (tensor<16x8xf32>, tensor<f32>) -> tensor<8xf32>
    %49 = stablehlo.reshape %48 : (tensor<8xf32>) -> tensor<1x8xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %50 = stablehlo.reduce(%49 init: %cst_10) applies stablehlo.add across dimensions = [0] : (tensor<1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %51 = stablehlo.dot_general %47, %arg6, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %52 = stablehlo.transpose %51, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %cst_11 = stablehlo.constant dense<3.000000e-02> : tensor<f32>
    %53 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %54 = stablehlo.multiply %53, %52 : tensor<4x8xf32>
    %55 = stablehlo.subtract %arg0, %54 : tensor<4x8xf32>
    %cst_12 = stablehlo.constant dense<3.000000e-02> : tensor<f32>
    %56 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %57 = stablehlo.multiply %56, %50 : tensor<8xf32>
    %58 = stablehlo.subtract %arg1, %57 : tensor<8xf32>
    %cst_13 = stablehlo.constant dense<3.000000e-02> : tensor<f32>
    %59 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %60 = stablehlo.multiply %59, %43 : tensor<8x8xf32>
    %61 = stablehlo.subtract %arg2, %60 : tensor<8x8xf32>
    %cst_14 = stablehlo.constant dense<3.000000e-02> : tensor<f32>
    %62 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %63 = stablehlo.multiply %62, %41 : tensor<8xf32>
    %64 = stablehlo.subtract %arg3, %63 : tensor<8xf32>
    %cst_15 = stablehlo.constant dense<3.000000e-02> : tensor<f32>
    %65 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<8x2xf32>
    %66 = stablehlo.multiply %65, %34 : tensor<8x2xf32>
    %67 = stablehlo.subtract %arg4, %66 : tensor<8x2xf32>
    %cst_16 = stablehlo.constant dense<3.000000e-02> : tensor<f32>
    %68 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %69 = stablehlo.multiply %68, %32 : tensor<2xf32>
    %70 = stablehlo.subtract %arg5, %69 : tensor<2xf32>
    return %55, %58, %61, %64, %67, %70 : tensor<4x8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<8x2xf32>, tensor<2xf32>
  }
}
