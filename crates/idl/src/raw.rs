//! A file as it is written: names are not looked up yet.

use forebay_types::{Order, Way};

use crate::expr::Expr;
use crate::model::{Case, Convention, LinePlace, Literal, Threads, Type};

/// A name where it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NameAt<'a> {
    pub name: &'a str,
    pub place: LinePlace,
}

/// A line of a routine as it is written.
pub(crate) struct RawRoutine<'a> {
    pub name: NameAt<'a>,
    pub args: Vec<RawArg<'a>>,
    pub returned: Option<RawType>,
    pub returned_status: Option<Vec<Case>>,
    pub returns: Option<NameAt<'a>>,
    pub symbol: Option<&'a str>,
    pub convention: Option<Convention>,
    pub order: Option<Order>,
    pub threads: Option<Threads>,
    pub cost: Option<Expr<NameAt<'a>>>,
    pub effects: bool,
    pub xerbla: bool,
    pub chain: Option<RawChain<'a>>,
    pub lets: Vec<(NameAt<'a>, Expr<NameAt<'a>>)>,
    pub wheres: Vec<(Expr<NameAt<'a>>, Option<&'a str>)>,
}

/// The functions of a chain as they are written.
pub(crate) struct RawChain<'a> {
    pub name: NameAt<'a>,
    pub plan: RawStep<'a>,
    pub keep: usize,
    pub free: Option<RawStep<'a>>,
    pub call: RawStep<'a>,
}

pub(crate) struct RawStep<'a> {
    pub symbol: NameAt<'a>,
    pub values: Vec<RawValue<'a>>,
}

pub(crate) enum RawValue<'a> {
    Name(NameAt<'a>),
    Const(i32),
}

pub(crate) struct RawArg<'a> {
    pub name: NameAt<'a>,
    pub kind: RawKind<'a>,
    /// `by value`, `by pointer`.
    pub by_value: Option<bool>,
}

pub(crate) enum RawKind<'a> {
    Bare,
    Typed(RawTyped<'a>),
    Const(RawType, Literal),
    Computed(RawType, Expr<NameAt<'a>>),
    Work { of: RawType, len: Expr<NameAt<'a>>, query: Option<NameAt<'a>> },
    Length(NameAt<'a>),
    Null,
}

pub(crate) struct RawTyped<'a> {
    pub way: Option<Way>,
    pub of: RawType,
    pub extents: Option<Vec<Expr<NameAt<'a>>>>,
    pub order: Option<Order>,
    pub ld: Option<NameAt<'a>>,
    pub inc: Option<NameAt<'a>>,
    pub tri: Option<NameAt<'a>>,
    pub align: Option<usize>,
    pub when: Option<Expr<NameAt<'a>>>,
    pub one_of: Option<Vec<i64>>,
    pub status: Option<Vec<Case>>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum RawType {
    Scalar(Type),
    Str,
    File,
}
