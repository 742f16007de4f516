//! Rust types that array elements may be seen as, without a copy.

use crate::DType;

/// A number whose every bit pattern is a value, and its dtype.
pub trait Element: bytemuck::Pod {
    /// The dtype.
    const DTYPE: DType;
}

macro_rules! element {
    ($($rust:ty => $dtype:ident),*) => {$(
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}
element!(i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    half::f16 => F16, f32 => F32, f64 => F64, [f32; 2] => C64, [f64; 2] => C128);
