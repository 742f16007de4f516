//! What a file says, when it has been read: a library and its routines.

use forebay_types::{DType, Order, Signature, Way};

use crate::Expr;

/// Where something stands in a file; both count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct LinePlace {
    pub line: u32,
    pub column: u32,
}

/// A file: what is said of all routines, and the routines.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Library {
    /// What `set` said last; of convention, symbol and the like each routine has its own.
    pub settings: Settings,
    /// In the order of the file; no two have one name.
    pub routines: Vec<Routine>,
}

impl Library {
    /// Whether each worker has a process of its own.
    pub fn has_processes(&self) -> bool {
        self.routines.iter().any(|r| r.threads == Threads::Process)
    }
}

/// What `set` says.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What is loaded: a name that the loader finds, or a path.
    pub library: Option<String>,
    /// Environment of the library, set before it is loaded.
    pub env: Vec<(String, String)>,
    /// How arguments are passed.
    pub convention: Convention,
    /// The symbol of a routine: `%s` stands for its name.
    pub symbol: String,
    /// The dtype of what is named without one: leading dimensions, increments, lengths of work.
    pub int: DType,
    /// Who may call at a time.
    pub threads: Threads,
    /// The lock of `threads serial`: libraries of one process that name the same lock share it.
    pub lock: Option<String>,
    /// Where the lengths of characters are passed.
    pub hidden: Option<Hidden>,
    /// How a complex result comes back.
    pub complex: Complex,
    /// Stubs write only the elements of an array that its routine has changed.
    pub only_changed: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            library: None,
            env: Vec::new(),
            convention: Convention::Fortran,
            symbol: "%s".into(),
            int: DType::I32,
            threads: Threads::Serial,
            lock: None,
            hidden: None,
            complex: Complex::Value,
            only_changed: false,
        }
    }
}

/// How arguments are passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convention {
    /// By address; the lengths of characters behind all others; arrays run first index first.
    Fortran,
    /// Scalars that only go in by value, the rest by address; arrays run last index first.
    C,
}

/// Who may call a library at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// Any thread at any time.
    Safe,
    /// One at a time.
    Serial,
    /// Each worker has a process of its own.
    Process,
}

/// Where the lengths of characters (`size_t`) are passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// Behind all arguments, in order.
    End,
    /// Each behind its character.
    Next,
    /// Nowhere.
    None,
}

/// How a complex result comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Complex {
    /// As a value, as gfortran and C do.
    Value,
    /// Through an address that is passed first, as f2c and some compilers do.
    Pointer,
}

/// A routine.
#[derive(Clone, Debug, PartialEq)]
pub struct Routine {
    /// Its name, which callers use.
    pub name: String,
    /// Its symbol in the library.
    pub symbol: String,
    /// Where it stands.
    pub place: LinePlace,
    /// How its arguments are passed.
    pub convention: Convention,
    /// Where the lengths of characters are passed.
    pub hidden: Hidden,
    /// Its arguments, in the order of the library's. Lengths of characters and the address of a complex result are not
    /// among them, but for those that the line names itself.
    pub args: Vec<Arg>,
    /// What the function returns.
    pub returned: Option<Returned>,
    /// What must hold before it is called.
    pub wheres: Vec<Where>,
    /// Who may call at a time.
    pub threads: Threads,
    /// Running it twice is not the same as running it once.
    pub effects: bool,
    /// It checks its own arguments and tells `xerbla`.
    pub xerbla: bool,
    /// What is called instead of one symbol.
    pub chain: Option<Chain>,
    /// How many operations it takes, for who distributes calls.
    pub cost: Option<Expr>,
    /// What is published for people. Its name is that of the routine.
    pub plain: Published,
    /// What is published for stubs, under [`NATIVE`](crate::NATIVE) and its name.
    pub native: Published,
}

/// Two functions that are one routine: the first makes a plan, which is kept, the second is called with it and with the
/// arrays.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// Makes a plan: returns a pointer. It gets memory of its own in the place of arrays.
    pub plan: Step,
    /// Frees a plan.
    pub free: Option<String>,
    /// How many plans are kept: of each set of scalars that the plan was made with one.
    pub keep: usize,
    /// Does the work.
    pub call: Step,
}

/// A function of a chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its symbol.
    pub symbol: String,
    /// What it is passed.
    pub values: Vec<StepValue>,
}

/// What a function of a chain is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepValue {
    /// That argument: a scalar by value, an array by its address.
    Arg(usize),
    /// The plan.
    Plan,
    /// An `int`.
    Const(i32),
}

/// A signature, and where the value of each of its parameters comes from or goes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// What callers see.
    pub signature: Signature,
    /// One for each parameter of the signature.
    pub sources: Vec<Source>,
}

/// What a parameter of a published signature stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// That argument. A character is `str` for people and `u8` for stubs.
    Arg(usize),
    /// The first element of that work array after the call, where a library leaves the best length.
    First(usize),
    /// What the function returns.
    Result,
    /// The number that `xerbla` was told; 0 when it was not called. Arrays are as they came then.
    XerblaInfo,
    /// The name that `xerbla` was told.
    XerblaName,
}

/// An argument of the library's routine.
#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    /// Its name; made up for `null` and `length(x)`.
    pub name: String,
    /// Where it stands.
    pub place: LinePlace,
    /// What it is.
    pub kind: Kind,
    /// Whether the value itself is passed, not its address.
    pub by_value: bool,
}

/// What an argument is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A number, a truth value, a character.
    Scalar(Scalar),
    /// An array.
    Array(Array),
    /// A text that goes in. In convention C a zero byte follows.
    Str,
    /// A file that goes in or comes back: the library gets its path, as a text.
    File(Way),
    /// The same in every call; no caller passes it.
    Const(Type, Literal),
    /// Computed from others; no caller passes it.
    Computed(Type, Expr),
    /// The leading dimension of that array, named without a type: stubs pass it, people do not.
    Leading(DType, usize),
    /// The increment of that array, named without a type: stubs pass it, for people it is 1.
    Increment(DType, usize),
    /// An array that the server brings along.
    Work {
        /// Type of its elements.
        dtype: DType,
        /// How many.
        len: Expr,
        /// The argument that says the length, of a routine that tells the best one when that is -1.
        query: Option<usize>,
    },
    /// The length of that work array: stubs pass it, for people the routine is asked.
    Query(DType, usize),
    /// The length of that text or the number of elements of that array, as `size_t`.
    Length(usize),
    /// A null pointer.
    Null,
}

impl Kind {
    /// Whether the library gets a text: one that callers pass, or the path of a file.
    pub fn is_text(&self) -> bool {
        matches!(self, Kind::Str | Kind::File(_))
    }

    /// The type of an argument that is passed as one value or the address of one.
    pub fn scalar_type(&self) -> Option<Type> {
        match self {
            Kind::Scalar(s) => Some(s.of),
            Kind::Const(of, _) | Kind::Computed(of, _) => Some(*of),
            Kind::Leading(dtype, _) | Kind::Increment(dtype, _) | Kind::Query(dtype, _) => {
                Some(Type::Number(*dtype))
            }
            _ => None,
        }
    }
}

/// A scalar that callers pass or get.
#[derive(Clone, Debug, PartialEq)]
pub struct Scalar {
    /// Its type.
    pub of: Type,
    /// Which way it travels.
    pub way: Way,
    /// The values that it may have, for people and for checks; stubs pass any.
    pub one_of: Option<Vec<i64>>,
    /// It tells how the routine went: 0 is well. What else it says, by its value.
    pub status: Option<Vec<Case>>,
}

/// What the values of a status mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// `Less`, `Greater` or `Equal`.
    pub compare: crate::Binary,
    /// With what the status is compared.
    pub with: i64,
    /// What is said then. `{info}` is the value of the argument of that name, `{-info}` without its sign.
    pub text: String,
}

/// An array.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Type of its elements.
    pub dtype: DType,
    /// Which way they travel.
    pub way: Way,
    /// How many there are along each axis. What is negative counts as 0.
    pub extents: Vec<Expr>,
    /// Which index runs fastest.
    pub order: Order,
    /// The argument that is its leading dimension: of its two axes only the box of its extents travels.
    pub ld: Option<usize>,
    /// The argument that is its increment: of its one axis only its elements travel.
    pub inc: Option<usize>,
    /// The character that says which triangle of it counts.
    pub tri: Option<usize>,
    /// Bytes to which its first element is aligned.
    pub align: Option<usize>,
    /// It is looked at only when this is not 0. May name real scalars, to compare them with integers.
    pub when: Option<Expr>,
}

/// The type of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A number.
    Number(DType),
    /// A byte; in convention Fortran with a hidden length.
    Char,
    /// A truth value: an `int` in convention Fortran (`logical`), a byte in convention C.
    Bool,
}

/// What a function returns.
#[derive(Clone, Debug, PartialEq)]
pub struct Returned {
    /// Its name in the signatures.
    pub name: String,
    /// Its type.
    pub of: Type,
    /// How it comes back, if it is complex.
    pub complex: Complex,
    /// It tells how the function went: 0 is well. What else it says, by its value.
    pub status: Option<Vec<Case>>,
}

/// A constant.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Literal {
    Integer(i64),
    Real(f64),
}

/// What must hold before a routine is called.
#[derive(Clone, Debug, PartialEq)]
pub struct Where {
    /// Not 0.
    pub holds: Expr,
    /// What is said when it does not.
    pub text: String,
}

impl Type {
    /// The dtype of the value as stubs have it.
    pub fn dtype(self) -> DType {
        match self {
            Type::Number(dtype) => dtype,
            Type::Char => DType::U8,
            Type::Bool => DType::Bool,
        }
    }
}

impl Routine {
    /// What the library must have.
    pub fn symbols(&self) -> Vec<&str> {
        match &self.chain {
            None => vec![&self.symbol],
            Some(c) => {
                [&c.plan.symbol, &c.call.symbol].into_iter().chain(&c.free).map(String::as_str).collect()
            }
        }
    }

    /// The text of an expression, as the file has it.
    pub fn text(&self, e: &Expr) -> String {
        e.text(&|at: &usize| self.args.get(*at).map(|a| a.name.clone()).unwrap_or_default())
    }

    /// An argument as the file has it: `b:f64[n,nrhs]`, `info:i32`.
    pub fn kind_of(&self, arg: &Arg) -> String {
        match &arg.kind {
            Kind::Scalar(s) if s.of == Type::Char => format!("{}:char", arg.name),
            Kind::Scalar(s) => format!("{}:{}", arg.name, s.of.dtype()),
            Kind::Array(array) => {
                let extents: Vec<String> = array.extents.iter().map(|e| self.text(e)).collect();
                format!("{}:{}[{}]", arg.name, array.dtype, extents.join(", "))
            }
            _ => arg.name.clone(),
        }
    }
}
