//! From the line of a routine to what it means: names are looked up, roles given, and what cannot be is refused.

use std::collections::HashMap;

use forebay_types::{DType, ElementKind, Order, Result, Way, limits};

use crate::expr::Expr;
use crate::lexer::fault;
use crate::model::{
    Arg, Array, Chain, Complex, Convention, Hidden, Kind, LinePlace, Literal, Published, Returned, Routine,
    Scalar, Settings, Step, StepValue, Type, Where,
};
use crate::publish;
use crate::raw::{NameAt, RawArg, RawChain, RawKind, RawRoutine, RawStep, RawType, RawTyped, RawValue};

/// Most look-ups of names for one routine: expressions that are named by `let` may stand in each other.
const LOOK_UPS: u32 = 10_000;
/// How deep such expressions may stand in each other.
const LEVELS: u32 = 8;
/// Most numbers, names and operations of an expression in the end.
const SIZE: usize = 1_000;

/// What an expression is for, which decides the names it may have.
#[derive(Clone, Copy, PartialEq)]
enum For {
    /// Extents, conditions.
    Callers,
    /// Lengths of work arrays.
    Work,
    /// `when`: real numbers are compared, too.
    When,
}

/// Bytes to which arrays of chains are aligned at least: as memory is with which plans are made.
const PLANNED: usize = 64;

struct Scope<'a, 'f> {
    file: &'f str,
    args: &'f [RawArg<'a>],
    lets: &'f [(NameAt<'a>, Expr<NameAt<'a>>)],
    names: HashMap<&'a str, usize>,
    look_ups: u32,
    level: u32,
}

pub(crate) fn resolve(file: &str, raw: RawRoutine<'_>, settings: &Settings) -> Result<Routine> {
    let at = |place: LinePlace, text: String| fault(file, place, text);
    let mut names = HashMap::new();
    for (i, arg) in raw.args.iter().enumerate() {
        let named = !matches!(arg.kind, RawKind::Null | RawKind::Length(_));
        if named && names.insert(arg.name.name, i).is_some() {
            return Err(at(
                arg.name.place,
                format!("two arguments are called {:?}; rename one", arg.name.name),
            ));
        }
    }
    for (i, (name, _)) in raw.lets.iter().enumerate() {
        if names.contains_key(name.name) || raw.lets[..i].iter().any(|(other, _)| other.name == name.name) {
            return Err(at(
                name.place,
                format!("{:?} is an argument or was let already; rename it", name.name),
            ));
        }
    }
    let convention = raw.convention.unwrap_or(settings.convention);
    let of_convention = match convention {
        Convention::Fortran => Hidden::End,
        Convention::C => Hidden::None,
    };
    let mut scope = Scope { file, args: &raw.args, lets: &raw.lets, names, look_ups: 0, level: 0 };
    let order = raw.order.unwrap_or(if convention == Convention::Fortran { Order::F } else { Order::C });
    let mut args = Vec::with_capacity(raw.args.len());
    for (i, arg) in raw.args.iter().enumerate() {
        let kind = scope.kind(arg, convention, order, settings.int)?;
        let by_value = arg.by_value.unwrap_or_else(|| is_passed_by_value(&kind, convention));
        let name = match arg.kind {
            RawKind::Null => format!("null_{i}"),
            RawKind::Length(of) => format!("length_of_{}", of.name),
            _ => arg.name.name.to_owned(),
        };
        if by_value && !matches!(&kind, Kind::Scalar(s) if s.way == Way::In) && !is_hidden_value(&kind) {
            let why = format!("{name} cannot be passed by value; only scalars that go in can");
            return Err(at(arg.name.place, why));
        }
        args.push(Arg { name, place: arg.name.place, kind, by_value });
    }
    let mut wheres = Vec::new();
    for (holds, text) in &raw.wheres {
        let said = text.map_or_else(|| holds.text(&|n: &NameAt| n.name.to_owned()), str::to_owned);
        wheres.push(Where { holds: scope.expr(holds, "where", For::Callers)?, text: said });
    }
    let cost = raw.cost.as_ref().map(|e| scope.expr(e, "cost", For::Callers)).transpose()?;
    let returned = raw.returned.map(|of| returned(file, &raw, of, settings)).transpose()?;
    if let (None, Some(name)) = (&returned, raw.returns) {
        return Err(at(name.place, "nothing is returned; write -> and a type behind the arguments".into()));
    }
    let symbol = raw.symbol.unwrap_or(&settings.symbol).replace("%s", raw.name.name);
    if symbol.len() > limits::NAME_BYTES {
        return Err(at(raw.name.place, format!("a symbol of {} bytes is beyond the limit", symbol.len())));
    }
    if raw.chain.is_some() {
        // A plan is good for arrays that lie as those did with which it was made.
        let arrays =
            args.iter_mut().filter_map(|a| if let Kind::Array(a) = &mut a.kind { Some(a) } else { None });
        arrays.for_each(|a| a.align = Some(a.align.unwrap_or(0).max(PLANNED)));
    }
    let chain = raw.chain.as_ref().map(|c| chain(file, c, &args, convention)).transpose()?;
    let symbol = chain.as_ref().map_or(symbol, |c| c.call.symbol.clone());
    let mut routine = Routine {
        name: raw.name.name.to_owned(),
        symbol,
        place: raw.name.place,
        convention,
        hidden: settings.hidden.filter(|_| convention == Convention::Fortran).unwrap_or(of_convention),
        args,
        returned,
        wheres,
        threads: raw.threads.unwrap_or(settings.threads),
        effects: raw.effects,
        xerbla: raw.xerbla,
        chain,
        cost,
        plain: Published::nothing(),
        native: Published::nothing(),
    };
    let within = |e: forebay_types::Error| at(raw.name.place, e.text().to_owned());
    routine.plain = publish::plain(&routine).map_err(within)?;
    routine.native = publish::native(&routine).map_err(within)?;
    Ok(routine)
}

fn returned(file: &str, raw: &RawRoutine, of: RawType, settings: &Settings) -> Result<Returned> {
    let taken = |name: &str| raw.args.iter().any(|a| a.name.name == name);
    let free = || ["result", "result_", "result__"].into_iter().find(|n| !taken(n)).unwrap_or("returned");
    let name = raw.returns.map_or_else(free, |n| n.name);
    let refused = |why: String| Err(fault(file, raw.name.place, why));
    match of {
        _ if taken(name) => {
            refused(format!("the result is called {name:?} as an argument is; rename one by returns"))
        }
        _ if raw.returned_status.is_some() && !is_integer(of) => {
            refused("a status that is returned is an integer; write for example -> i32 status".into())
        }
        RawType::Scalar(of @ (Type::Number(_) | Type::Bool)) => {
            let status = raw.returned_status.clone();
            Ok(Returned { name: name.to_owned(), of, complex: settings.complex, status })
        }
        _ => refused("a function that returns text is not served; write a subroutine around it".into()),
    }
}

fn chain(file: &str, raw: &RawChain, args: &[Arg], convention: Convention) -> Result<Chain> {
    let refused = |place: LinePlace, text: String| fault(file, place, text);
    if convention != Convention::C {
        let why = "a chain calls functions of C; write `set convention c` before it";
        return Err(refused(raw.name.place, why.into()));
    }
    let value = |value: &RawValue| match value {
        RawValue::Const(n) => Ok(StepValue::Const(*n)),
        RawValue::Name(name) if name.name == raw.name.name => Ok(StepValue::Plan),
        RawValue::Name(name) => {
            let at = args.iter().position(|a| a.name == name.name);
            let at = at.ok_or_else(|| {
                refused(
                    name.place,
                    format!(
                        "{:?} is no argument of the chain; add it, or write const and a number",
                        name.name
                    ),
                )
            })?;
            let goes = match &args[at].kind {
                Kind::Scalar(s) => s.way == Way::In,
                kind => matches!(kind, Kind::Array(_) | Kind::Const(..) | Kind::Computed(..)),
            };
            match goes {
                true => Ok(StepValue::Arg(at)),
                false => Err(refused(
                    name.place,
                    format!("{} is neither an array nor a scalar that goes in", name.name),
                )),
            }
        }
    };
    let step = |raw: &RawStep| -> Result<Step> {
        let values = raw.values.iter().map(value).collect::<Result<_>>()?;
        Ok(Step { symbol: raw.symbol.name.to_owned(), values })
    };
    let (plan, call) = (step(&raw.plan)?, step(&raw.call)?);
    let free = raw.free.as_ref().map(|f| step(f).map(|s| (f, s))).transpose()?;
    if plan.values.contains(&StepValue::Plan) || !call.values.contains(&StepValue::Plan) {
        let why = format!(
            "the plan {} is made by the first function, and the second is called with it",
            raw.name.name
        );
        return Err(refused(raw.plan.symbol.place, why));
    }
    if let Some((f, _)) = free.as_ref().filter(|(_, step)| step.values != [StepValue::Plan]) {
        return Err(refused(
            f.symbol.place,
            format!("{} frees the plan alone; write ({})", f.symbol.name, raw.name.name),
        ));
    }
    Ok(Chain { plan, free: free.map(|(_, step)| step.symbol), keep: raw.keep, call })
}

fn is_hidden_value(kind: &Kind) -> bool {
    !matches!(
        kind,
        Kind::Scalar(_) | Kind::Array(_) | Kind::Str | Kind::File(_) | Kind::Work { .. } | Kind::Null
    )
}

fn is_passed_by_value(kind: &Kind, convention: Convention) -> bool {
    match kind {
        Kind::Length(_) => true,
        Kind::Scalar(s) => convention == Convention::C && s.way == Way::In,
        _ => convention == Convention::C && is_hidden_value(kind),
    }
}

impl<'a> Scope<'a, '_> {
    fn at(&self, place: LinePlace, text: impl std::fmt::Display) -> forebay_types::Error {
        fault(self.file, place, text)
    }

    /// The argument that an option names.
    fn find(&self, name: NameAt, by: &str) -> Result<usize> {
        self.names.get(name.name).copied().ok_or_else(|| {
            self.at(
                name.place,
                format!("{:?} is used by {by} but is no argument; add {}:i32", name.name, name.name),
            )
        })
    }

    /// The integer argument that an option names.
    fn integer(&self, name: NameAt, by: &str) -> Result<usize> {
        let at = self.find(name, by)?;
        let fits = match &self.args[at].kind {
            RawKind::Bare => true,
            RawKind::Const(of, _) | RawKind::Computed(of, _) => is_integer(*of),
            RawKind::Typed(t) => {
                t.extents.is_none() && is_integer(t.of) && t.way.is_none_or(|w| w == Way::In)
            }
            _ => false,
        };
        if !fits {
            return Err(
                self.at(name.place, format!("{:?} is no integer that goes in; {by} needs one", name.name))
            );
        }
        Ok(at)
    }

    fn kind(&mut self, arg: &RawArg<'a>, convention: Convention, order: Order, int: DType) -> Result<Kind> {
        let name = arg.name.name;
        match &arg.kind {
            RawKind::Null => Ok(Kind::Null),
            RawKind::Length(of) => {
                let at = self.find(*of, "length")?;
                let has_length = match &self.args[at].kind {
                    RawKind::Typed(t) => {
                        t.extents.is_some()
                            || matches!(t.of, RawType::Str | RawType::File)
                            || t.of == RawType::Scalar(Type::Char)
                    }
                    _ => false,
                };
                if !has_length {
                    return Err(
                        self.at(of.place, format!("{} has no length; it is neither text nor array", of.name))
                    );
                }
                Ok(Kind::Length(at))
            }
            RawKind::Const(of, value) => match (of, value) {
                (RawType::Scalar(Type::Number(d)), Literal::Integer(n))
                    if d.range().is_some_and(|r| !r.contains(&i128::from(*n))) =>
                {
                    Err(self.at(arg.name.place, format!("{n} is beyond what {d} holds")))
                }
                (RawType::Scalar(Type::Number(d)), Literal::Real(x)) if d.is_integer() => {
                    Err(self.at(arg.name.place, format!("{x} is no integer, as {name}:{d} wants")))
                }
                (RawType::Scalar(of), value) => Ok(Kind::Const(*of, *value)),
                (RawType::Str | RawType::File, _) => {
                    Err(self.at(arg.name.place, "a constant is a number or one character"))
                }
            },
            RawKind::Computed(of, value) => match of {
                RawType::Scalar(of)
                    if is_integer(RawType::Scalar(*of)) || *of != Type::Number(of.dtype()) =>
                {
                    Ok(Kind::Computed(*of, self.expr(value, name, For::Callers)?))
                }
                _ => {
                    Err(self
                        .at(arg.name.place, format!("{name} is computed, so it is an integer, bool or char")))
                }
            },
            RawKind::Work { of, len, query } => {
                let RawType::Scalar(Type::Number(dtype)) = *of else {
                    return Err(self.at(
                        arg.name.place,
                        format!("the work array {name} is one of numbers; write i32[n] for logicals"),
                    ));
                };
                let len = self.expr(len, name, For::Work)?;
                let query = query.map(|q| self.integer(q, name)).transpose()?;
                Ok(Kind::Work { dtype, len, query })
            }
            RawKind::Bare => self.bare(arg, int),
            RawKind::Typed(typed) => self.typed(arg, typed, convention, order),
        }
    }

    /// A name without a type is what some array names.
    fn bare(&self, arg: &RawArg, int: DType) -> Result<Kind> {
        let is_it = |n: &Option<NameAt>| n.is_some_and(|n| n.name == arg.name.name);
        for (i, other) in self.args.iter().enumerate() {
            match &other.kind {
                RawKind::Typed(t) if is_it(&t.ld) => return Ok(Kind::Leading(int, i)),
                RawKind::Typed(t) if is_it(&t.inc) => return Ok(Kind::Increment(int, i)),
                RawKind::Work { query, .. } if is_it(query) => return Ok(Kind::Query(int, i)),
                _ => (),
            }
        }
        let name = arg.name.name;
        let remedy = "or name it by ld, inc or query of its array";
        Err(self.at(
            arg.name.place,
            format!("{name:?} has no type and no array names it; write {name}:i32, {remedy}"),
        ))
    }

    fn typed(
        &mut self,
        arg: &RawArg<'a>,
        t: &RawTyped<'a>,
        convention: Convention,
        order: Order,
    ) -> Result<Kind> {
        let name = arg.name.name;
        let refused = |scope: &Self, why: &str| Err(scope.at(arg.name.place, format!("{name} {why}")));
        let Some(extents) = &t.extents else { return self.scalar(arg, t) };
        if t.one_of.is_some() || t.status.is_some() {
            return refused(self, "is an array; one of and status are for scalars");
        }
        let dtype = match t.of {
            RawType::Scalar(Type::Number(dtype)) => dtype,
            RawType::Scalar(Type::Bool) if convention == Convention::C => DType::Bool,
            RawType::Scalar(Type::Bool) => return refused(self, "is an array of logicals; write i32"),
            _ => return refused(self, "is an array of characters; write u8"),
        };
        let Some(way) = t.way else {
            return refused(self, "is an array and has no direction; write in, out or inout before it");
        };
        if extents.len() > limits::RANK {
            return refused(self, "has more than 8 extents");
        }
        if t.ld.is_some() && extents.len() != 2 {
            return refused(self, "has a leading dimension, so it has two extents");
        }
        if t.inc.is_some() && extents.len() != 1 {
            return refused(self, "has an increment, so it has one extent");
        }
        let ld = t.ld.map(|n| self.integer(n, name)).transpose()?;
        let inc = t.inc.map(|n| self.integer(n, name)).transpose()?;
        let tri = t.tri.map(|n| self.find(n, name)).transpose()?;
        let extents = extents.iter().map(|e| self.expr(e, name, For::Callers)).collect::<Result<_>>()?;
        let when = t.when.as_ref().map(|e| self.expr(e, name, For::When)).transpose()?;
        let order = t.order.unwrap_or(order);
        Ok(Kind::Array(Array { dtype, way, extents, order, ld, inc, tri, align: t.align, when }))
    }

    fn scalar(&mut self, arg: &RawArg<'a>, t: &RawTyped<'a>) -> Result<Kind> {
        let name = arg.name.name;
        let refused = |why: &str| Err(self.at(arg.name.place, format!("{name} {why}")));
        if t.order.is_some() || t.ld.is_some() || t.inc.is_some() || t.tri.is_some() || t.align.is_some() {
            return refused("is no array; order, ld, inc, tri and align are for arrays");
        }
        if t.when.is_some() {
            return refused("is no array; when is for arrays");
        }
        let way = t.way.unwrap_or(Way::In);
        if t.of == RawType::File {
            if way == Way::InOut || t.one_of.is_some() || t.status.is_some() {
                return refused("is a file, which goes in or comes out; write in or out before it");
            }
            return Ok(Kind::File(way));
        }
        let RawType::Scalar(of) = t.of else {
            if way != Way::In || t.one_of.is_some() || t.status.is_some() {
                return refused("is text, which goes in only; results of text come as u8[n]");
            }
            return Ok(Kind::Str);
        };
        if of == Type::Char && way != Way::In {
            return refused("is a character, which goes in only; results of characters come as u8[1]");
        }
        if t.one_of.is_some() && (way == Way::Out || !is_integer(t.of) && of != Type::Char) {
            return refused("is neither integer nor character that goes in; one of is for those");
        }
        if t.status.is_some() && (!way.comes() || !is_integer(t.of)) {
            return refused("is no integer that comes back, which a status is");
        }
        if self.is_query(name) {
            return match of {
                Type::Number(dtype) if way == Way::In => Ok(Kind::Query(dtype, self.work_of(name))),
                _ => refused("is the length of a work array; write it as an integer that goes in"),
            };
        }
        Ok(Kind::Scalar(Scalar { of, way, one_of: t.one_of.clone(), status: t.status.clone() }))
    }

    fn is_query(&self, name: &str) -> bool {
        self.args.iter().any(|a| matches!(&a.kind, RawKind::Work { query: Some(q), .. } if q.name == name))
    }

    fn work_of(&self, name: &str) -> usize {
        let is_it = |a: &RawArg| matches!(&a.kind, RawKind::Work { query: Some(q), .. } if q.name == name);
        self.args.iter().position(is_it).unwrap_or(0)
    }

    fn expr(&mut self, e: &Expr<NameAt<'a>>, by: &str, is_for: For) -> Result<Expr> {
        let said = e.clone().resolve(&mut |name| self.value(name, by, is_for))?;
        match said.size() > SIZE {
            true => Err(fault(
                self.file,
                self.args.first().map(|a| a.name.place).unwrap_or_default(),
                format!("an expression of {by} has more than {SIZE} parts; write less"),
            )),
            false => Ok(said),
        }
    }

    /// An expression that a name stands for.
    fn inner(&mut self, e: &Expr<NameAt<'a>>, name: NameAt<'a>, is_for: For) -> Result<Expr> {
        if self.level == LEVELS {
            let why = format!("{:?} stands for itself, or {LEVELS} names stand for each other", name.name);
            return Err(self.at(name.place, why));
        }
        self.level += 1;
        let said = self.expr(e, name.name, is_for);
        self.level -= 1;
        said
    }

    /// What a name in an expression stands for.
    fn value(&mut self, name: NameAt<'a>, by: &str, is_for: For) -> Result<Expr> {
        self.look_ups += 1;
        if self.look_ups > LOOK_UPS {
            return Err(self.at(name.place, format!("{:?} stands for too much; write less", name.name)));
        }
        if let Some((_, e)) = self.lets.iter().find(|(l, _)| l.name == name.name) {
            return self.inner(e, name, is_for);
        }
        let at = self.find(name, by)?;
        let refused = |scope: &Self, why: &str| Err(scope.at(name.place, format!("{} {why}", name.name)));
        match &self.args[at].kind {
            RawKind::Computed(_, e) => self.inner(e, name, is_for),
            RawKind::Const(_, Literal::Integer(n)) => Ok(Expr::Number(*n)),
            RawKind::Const(..) => refused(self, "is no integer"),
            RawKind::Typed(_) if self.is_query(name.name) && is_for != For::Work => {
                refused(self, "is the length of a work array, which not every caller passes")
            }
            RawKind::Typed(t) if t.extents.is_none() && t.way.is_none_or(Way::goes) => match t.of {
                RawType::Str | RawType::File => {
                    refused(self, "is text; an expression has integers and characters")
                }
                RawType::Scalar(Type::Number(d)) if !d.is_integer() && is_for != For::When => {
                    let what = if d.kind() == ElementKind::Complex { "complex" } else { "real" };
                    refused(self, &format!("is {what}; an expression has integers and characters"))
                }
                RawType::Scalar(_) => Ok(Expr::Value(at)),
            },
            RawKind::Bare if self.is_query(name.name) && is_for == For::Work => Ok(Expr::Value(at)),
            RawKind::Bare => {
                let what = match by {
                    "where" => "the condition behind where".into(),
                    "cost" => "the cost".into(),
                    by => format!("what stands behind {by}"),
                };
                let n = name.name;
                let why = format!(
                    "is named without a type, so not every caller passes it; write {what} without {n}, or give it a type: {n}:i32"
                );
                refused(self, &why)
            }
            _ => refused(self, "is no scalar that goes in"),
        }
    }
}

fn is_integer(of: RawType) -> bool {
    matches!(of, RawType::Scalar(Type::Number(d)) if d.is_integer())
}

impl Published {
    fn nothing() -> Published {
        let signature = forebay_types::Signature::of("nothing", "").expect("a signature");
        Published { signature, sources: Vec::new() }
    }
}

// A result of a function that is complex says how it comes back; of others nothing is asked.
impl Returned {
    /// Whether it comes back through an address that is passed first.
    pub fn is_by_pointer(&self) -> bool {
        self.of.dtype().kind() == ElementKind::Complex && self.complex == Complex::Pointer
    }
}
