//! Rust types that array elements may be seen as, without a copy. Which they are stands in the table of dtypes.

use crate::DType;

/// A number whose every bit pattern is a value, and its dtype.
pub trait Element: bytemuck::Pod {
    /// The dtype.
    const DTYPE: DType;
}
