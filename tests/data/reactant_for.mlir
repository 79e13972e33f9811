module @reactant_rnn attributes {mhlo.num_partitions = 1 : i64, mhlo.num_replicas = 1 : i64} {
  func.func @main(%arg0: tensor<6x4xf32> {enzymexla.memory_effects = []}, %arg1: tensor<4x4xf32> {enzymexla.memory_effects = []}) -> (tensor<f32>, tensor<6x4xf32>) attributes {enzymexla.memory_effects = []} {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant {enzymexla.non_negative = [#enzymexla<guaranteed GUARANTEED>]} dense<0> : tensor<i64>
    %c_2 = stablehlo.constant dense<1> : tensor<i64>
    %c_3 = stablehlo.constant dense<6> : tensor<i64>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_4 = stablehlo.constant dense<1.250000e-01> : tensor<4xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<4xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<6x4xf32>
    %0:3 = stablehlo.while(%iterArg = %c_1, %iterArg_7 = %cst_5, %iterArg_8 = %cst_6) : tensor<i64>, tensor<4xf32>, tensor<6x4xf32> attributes {enzyme.disable_mincut, enzymexla.symmetric_matrix = [#enzymexla<guaranteed UNKNOWN>, #enzymexla<guaranteed UNKNOWN>, #enzymexla<guaranteed NOTGUARANTEED>]}
    cond {
      %2 = stablehlo.compare  LT, %iterArg, %c_3 : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %2 = stablehlo.add %c_2, %iterArg {enzymexla.bounds = [[1, 6]]} : tensor<i64>
      %3 = stablehlo.convert %2 {enzymexla.bounds = [[1, 6]]} : (tensor<i64>) -> tensor<i32>
      %4 = stablehlo.subtract %3, %c {enzymexla.bounds = [[0, 5]]} : tensor<i32>
      %5 = stablehlo.dynamic_slice %arg0, %4, %c_0, sizes = [1, 4] : (tensor<6x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
      %6 = stablehlo.reshape %5 : (tensor<1x4xf32>) -> tensor<4xf32>
      %7 = stablehlo.dot_general %iterArg_7, %arg1, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4xf32>, tensor<4x4xf32>) -> tensor<4xf32>
      %8 = stablehlo.convert %2 : (tensor<i64>) -> tensor<f32>
      %9 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f32>) -> tensor<4xf32>
      %10 = stablehlo.multiply %9, %cst_4 : tensor<4xf32>
      %11 = stablehlo.multiply %10, %6 : tensor<4xf32>
      %12 = stablehlo.add %7, %11 : tensor<4xf32>
      %13 = stablehlo.tanh %12 : tensor<4xf32>
      %14 = stablehlo.reshape %13 : (tensor<4xf32>) -> tensor<1x4xf32>
      %15 = stablehlo.dynamic_update_slice %iterArg_8, %14, %iterArg, %c_1 : (tensor<6x4xf32>, tensor<1x4xf32>, tensor<i64>, tensor<i64>) -> tensor<6x4xf32>
      stablehlo.return %2, %13, %15 : tensor<i64>, tensor<4xf32>, tensor<6x4xf32>
    }
    %1 = stablehlo.reduce(%0#2 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<6x4xf32>, tensor<f32>) -> tensor<f32>
    return %1, %0#2 : tensor<f32>, tensor<6x4xf32>
  }
}
