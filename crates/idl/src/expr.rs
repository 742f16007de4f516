//! Expressions over the scalars of a routine: 64-bit integers, checked at every step.
//!
//! A character counts as its byte, a truth value as 0 or 1; what is compared is 0 or 1. Division
//! goes towards zero, as in C and Fortran.

/// An expression. `N` is how it names a scalar: by its place among [`Routine::args`](crate::Routine::args).
#[derive(Clone, Debug, PartialEq)]
pub enum Expr<N = usize> {
    /// A number.
    Number(i64),
    /// The value of an argument.
    Value(N),
    /// `-x`, `not x`.
    Unary(Unary, Box<Expr<N>>),
    /// `x + y` and the like.
    Binary(Binary, Box<(Expr<N>, Expr<N>)>),
    /// `max(x, y, ...)` and the like.
    Call(Function, Vec<Expr<N>>),
    /// `yes if condition else no`: condition, yes, no.
    If(Box<(Expr<N>, Expr<N>, Expr<N>)>),
    /// `x in "Nn"`.
    OneOf(Box<Expr<N>>, Vec<u8>),
}

/// What is done with one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// `-x`
    Minus,
    /// `not x`
    Not,
}

/// What is done with two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    And,
    Or,
}

impl Binary {
    /// How it is written in a file, and but for `and` and `or` in C.
    pub fn sign(self) -> &'static str {
        match self {
            Binary::Add => "+",
            Binary::Subtract => "-",
            Binary::Multiply => "*",
            Binary::Divide => "/",
            Binary::Equal => "==",
            Binary::Unequal => "!=",
            Binary::Less => "<",
            Binary::LessOrEqual => "<=",
            Binary::Greater => ">",
            Binary::GreaterOrEqual => ">=",
            Binary::And => "and",
            Binary::Or => "or",
        }
    }

    /// All of them.
    pub fn all() -> [Binary; 12] {
        use Binary::*;
        [Add, Subtract, Multiply, Divide, Equal, Unequal, Less, LessOrEqual, Greater, GreaterOrEqual, And, Or]
    }
}

/// A function of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// The largest of two or more.
    Max,
    /// The smallest of two or more.
    Min,
    /// Without its sign; of one.
    Abs,
}

impl Function {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Function::Max => "max",
            Function::Min => "min",
            Function::Abs => "abs",
        }
    }

    /// The function of a name.
    pub fn named(name: &str) -> Option<Function> {
        [Function::Max, Function::Min, Function::Abs].into_iter().find(|f| f.name() == name)
    }
}

/// Why an expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It, or a part of it, has more than 64 bits.
    Overflow,
    /// Something is divided by zero.
    DivisionByZero,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Fault::Overflow => "has more than 64 bits",
            Fault::DivisionByZero => "divides by zero",
        })
    }
}

impl Expr {
    /// Its value; `value` gives that of an argument.
    pub fn eval(&self, value: &impl Fn(usize) -> i64) -> Result<i64, Fault> {
        let of = |e: &Expr| e.eval(value);
        match self {
            Expr::Number(n) => Ok(*n),
            Expr::Value(at) => Ok(value(*at)),
            Expr::Unary(Unary::Minus, x) => of(x)?.checked_neg().ok_or(Fault::Overflow),
            Expr::Unary(Unary::Not, x) => Ok((of(x)? == 0).into()),
            Expr::Binary(Binary::And, xy) => Ok((of(&xy.0)? != 0 && of(&xy.1)? != 0).into()),
            Expr::Binary(Binary::Or, xy) => Ok((of(&xy.0)? != 0 || of(&xy.1)? != 0).into()),
            Expr::Binary(what, xy) => binary(*what, of(&xy.0)?, of(&xy.1)?),
            Expr::If(parts) => match of(&parts.0)? {
                0 => of(&parts.2),
                _ => of(&parts.1),
            },
            Expr::OneOf(x, bytes) => {
                let x = of(x)?;
                Ok(bytes.iter().any(|b| i64::from(*b) == x).into())
            }
            Expr::Call(Function::Abs, x) => x.first().map_or(Ok(0), of)?.checked_abs().ok_or(Fault::Overflow),
            Expr::Call(what, all) => {
                let mut best = all.first().map_or(Ok(0), of)?;
                for e in all.iter().skip(1) {
                    let x = of(e)?;
                    best = if *what == Function::Max { best.max(x) } else { best.min(x) };
                }
                Ok(best)
            }
        }
    }
}

fn binary(what: Binary, x: i64, y: i64) -> Result<i64, Fault> {
    let checked = match what {
        Binary::Add => x.checked_add(y),
        Binary::Subtract => x.checked_sub(y),
        Binary::Multiply => x.checked_mul(y),
        Binary::Divide if y == 0 => return Err(Fault::DivisionByZero),
        Binary::Divide => x.checked_div(y),
        Binary::Equal => Some((x == y).into()),
        Binary::Unequal => Some((x != y).into()),
        Binary::Less => Some((x < y).into()),
        Binary::LessOrEqual => Some((x <= y).into()),
        Binary::Greater => Some((x > y).into()),
        Binary::GreaterOrEqual => Some((x >= y).into()),
        Binary::And => Some((x != 0 && y != 0).into()),
        Binary::Or => Some((x != 0 || y != 0).into()),
    };
    checked.ok_or(Fault::Overflow)
}

impl<N> Expr<N> {
    /// Puts something else in the place of every name.
    pub(crate) fn resolve<E>(self, of: &mut impl FnMut(N) -> Result<Expr, E>) -> Result<Expr, E> {
        Ok(match self {
            Expr::Number(n) => Expr::Number(n),
            Expr::Value(name) => of(name)?,
            Expr::Unary(what, x) => Expr::Unary(what, Box::new(x.resolve(of)?)),
            Expr::Binary(what, xy) => Expr::Binary(what, Box::new((xy.0.resolve(of)?, xy.1.resolve(of)?))),
            Expr::Call(what, all) => {
                Expr::Call(what, all.into_iter().map(|x| x.resolve(of)).collect::<Result<_, E>>()?)
            }
            Expr::If(parts) => {
                let (condition, yes, no) = *parts;
                Expr::If(Box::new((condition.resolve(of)?, yes.resolve(of)?, no.resolve(of)?)))
            }
            Expr::OneOf(x, bytes) => Expr::OneOf(Box::new(x.resolve(of)?), bytes),
        })
    }

    /// How many values, numbers and operations it has.
    pub fn size(&self) -> usize {
        1 + match self {
            Expr::Number(_) | Expr::Value(_) => 0,
            Expr::Unary(_, x) | Expr::OneOf(x, _) => x.size(),
            Expr::Binary(_, xy) => xy.0.size() + xy.1.size(),
            Expr::Call(_, all) => all.iter().map(Expr::size).sum(),
            Expr::If(parts) => parts.0.size() + parts.1.size() + parts.2.size(),
        }
    }

    /// Its text, as a file has it; `name` gives that of a scalar.
    pub fn text(&self, name: &impl Fn(&N) -> String) -> String {
        let inner = |e: &Expr<N>| match e {
            Expr::Binary(..) | Expr::If(..) | Expr::OneOf(..) | Expr::Unary(..) => {
                format!("({})", e.text(name))
            }
            _ => e.text(name),
        };
        match self {
            Expr::Number(n) => n.to_string(),
            Expr::Value(at) => name(at),
            Expr::Unary(Unary::Minus, x) => format!("-{}", inner(x)),
            Expr::Unary(Unary::Not, x) => format!("not {}", inner(x)),
            Expr::Binary(what @ Binary::Multiply, xy) => {
                format!("{}{}{}", inner(&xy.0), what.sign(), inner(&xy.1))
            }
            Expr::Binary(what, xy) => format!("{} {} {}", inner(&xy.0), what.sign(), inner(&xy.1)),
            Expr::Call(what, all) => {
                let all: Vec<String> = all.iter().map(|x| x.text(name)).collect();
                format!("{}({})", what.name(), all.join(", "))
            }
            Expr::If(parts) => {
                format!("{} if {} else {}", inner(&parts.1), inner(&parts.0), inner(&parts.2))
            }
            Expr::OneOf(x, bytes) => format!("{} in {:?}", inner(x), String::from_utf8_lossy(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(what: Binary, x: i64, y: i64) -> Result<i64, Fault> {
        Expr::Binary(what, Box::new((Expr::Number(x), Expr::Number(y)))).eval(&|_| 0)
    }

    #[test]
    fn what_leaves_64_bits_has_no_value() {
        assert_eq!(pair(Binary::Multiply, 1 << 40, 1 << 40), Err(Fault::Overflow));
        assert_eq!(pair(Binary::Subtract, i64::MIN, 1), Err(Fault::Overflow));
        assert_eq!(pair(Binary::Divide, i64::MIN, -1), Err(Fault::Overflow));
        assert_eq!(pair(Binary::Divide, 1, 0), Err(Fault::DivisionByZero));
        assert_eq!(
            Expr::Call(Function::Abs, vec![Expr::Number(i64::MIN)]).eval(&|_| 0),
            Err(Fault::Overflow)
        );
        assert_eq!(pair(Binary::Divide, -7, 2), Ok(-3));
    }
}
