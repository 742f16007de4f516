//! `forebay call`: one call of a service from the shell.

use super::out::Out;
use super::{npy, print};
use forebay::call::{Arg, Value};
use forebay::{Array, ArrayMeta, DType, ElementKind, Error, Result, Shape};
use forebay_types::{Number, Param, Scalar, Signature};
use serde_json::{Map, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Call a service. An argument is a number (a complex one as Python writes it: 1+2j), a text, a
/// .npy file, or SHAPE:DTYPE for zeros.
#[derive(clap::Args)]
#[command(
    after_help = "The exit status is 1 when the call fails, and when the service has a status (as `info` of LAPACK) that is not 0: \
                  its results are printed all the same, and the status is told on standard error.\n\n\
                  Example:\n  forebay call poisson1d 6.2832 rho.npy 64:f64 64:f64 --out results"
)]
pub struct Call {
    /// The service.
    name: String,
    /// Its arguments, in the order of its signature; `forebay services` shows it.
    #[arg(allow_negative_numbers = true)]
    args: Vec<String>,
    /// Directory for the arrays that come back, each as NAME.npy; otherwise they are printed.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seconds to wait.
    #[arg(long)]
    timeout: Option<f64>,
}

/// What stands before a word that begins as an option does and is a complex number. No word of a command line has it.
const NO_OPTION: char = '\0';

/// The words of a command line in which a complex number may begin with its sign, as real ones may.
pub fn with_complex(mut words: Vec<OsString>) -> Vec<OsString> {
    let command = words.iter().skip(1).find(|word| !word.as_encoded_bytes().starts_with(b"-"));
    if command.is_none_or(|word| word != "call") {
        return words;
    }
    for word in words.iter_mut().take_while(|word| *word != "--") {
        let is_one =
            |text: &&str| text.starts_with('-') && text.ends_with(['j', 'J']) && complex(text).is_ok();
        if let Some(text) = word.to_str().filter(is_one) {
            *word = format!("{NO_OPTION}{text}").into();
        }
    }
    words
}

/// An argument as it was read.
enum CliArgument {
    Scalar(Scalar),
    Text(String),
    Bytes(Vec<u8>),
    Array(Array),
}

impl Call {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let timeout = self.timeout.map(super::seconds).transpose()?;
        let client = forebay::connect(None)?;
        let signature = client.signature(&self.name)?;
        let params: Vec<&Param> = signature.passed().collect();
        if params.len() != self.args.len() {
            return Err(Error::bad(format!(
                "{} takes {} arguments and got {}; its signature is {signature}",
                self.name,
                params.len(),
                self.args.len()
            )));
        }
        let mut given = Vec::new();
        for (param, text) in params.iter().zip(&self.args) {
            let text = text.strip_prefix(NO_OPTION).unwrap_or(text);
            given.push(read(param, text).map_err(|e| e.within(format_args!("argument {}", param.name)))?);
        }
        let args = given.iter_mut().map(CliArgument::arg).collect();
        let values = client.call(&self.name, args, timeout)?;

        let status = status(&signature, &values);
        let returned = signature.params().iter().filter(|p| p.way.comes() && p.extents.is_none());
        let arrays = params.iter().zip(&given).filter(|(p, _)| p.way.comes());
        let arrays = arrays.filter_map(|(p, g)| match g {
            CliArgument::Array(a) => Some((p.name.as_str(), a)),
            _ => None,
        });
        self.show(out, returned.map(|p| p.name.as_str()).zip(&values).collect(), arrays.collect())?;
        match status {
            None => Ok(()),
            Some((name, status)) => Err(Error::new(
                forebay::Code::RemoteError,
                format!("{}: its status {name} is {status}; its results are not to be relied on", self.name),
            )),
        }
    }

    fn show(&self, out: &Out, values: Vec<(&str, &Value)>, arrays: Vec<(&str, &Array)>) -> Result<()> {
        if let Some(dir) = &self.out {
            std::fs::create_dir_all(dir)
                .map_err(|e| Error::io(format!("cannot make {}", dir.display()), e))?;
            for (name, array) in &arrays {
                npy::write(&dir.join(format!("{name}.npy")), array)?;
            }
        }
        if out.json {
            let mut object = Map::new();
            for (name, value) in values {
                let value = match value {
                    Value::Scalar(s) => print::element(s.dtype(), s.bytes()),
                    Value::Str(s) => json!(s),
                    Value::Bytes(b) => json!(b),
                };
                object.insert(name.to_owned(), value);
            }
            for (name, array) in arrays {
                object.insert(name.to_owned(), print::values(array));
            }
            return out.value(&object.into());
        }
        for (name, value) in values {
            match value {
                Value::Scalar(s) => out.line(format!("{name} = {s}"))?,
                Value::Str(s) => out.line(format!("{name} = {s}"))?,
                Value::Bytes(b) => out.line(format!("{name} = <{} bytes>", b.len()))?,
            }
        }
        for (name, array) in arrays {
            match &self.out {
                Some(dir) => out.line(format!("{name} -> {}", dir.join(format!("{name}.npy")).display()))?,
                None => out.line(format!("{name} =\n{}", print::text(array)))?,
            }
        }
        Ok(())
    }
}

impl CliArgument {
    fn arg(&mut self) -> Arg<'_> {
        match self {
            CliArgument::Scalar(s) => Arg::Scalar(*s),
            CliArgument::Text(t) => Arg::Str(t),
            CliArgument::Bytes(b) => Arg::Bytes(b),
            CliArgument::Array(a) => Arg::Mut(a.meta, &mut a.bytes),
        }
    }
}

fn read(param: &Param, text: &str) -> Result<CliArgument> {
    if param.extents.is_some() {
        let array = if text.ends_with(".npy") { npy::read(Path::new(text))? } else { zeros(text)? };
        return Ok(CliArgument::Array(array));
    }
    Ok(match param.dtype {
        DType::Str => CliArgument::Text(text.to_owned()),
        DType::Bytes => {
            CliArgument::Bytes(std::fs::read(text).map_err(|e| Error::io(format!("cannot read {text}"), e))?)
        }
        dtype if dtype.kind() == ElementKind::Complex => CliArgument::Scalar(complex(text)?),
        _ => CliArgument::Scalar(scalar(text)?),
    })
}

/// What a service says of how it ended, if not well: the name of the parameter, and its value.
fn status<'s>(signature: &'s Signature, values: &[Value]) -> Option<(&'s str, i64)> {
    let returned = signature.params().iter().filter(|param| param.is_returned());
    let (param, value) = returned.zip(values).find(|(param, _)| param.is_status)?;
    match value {
        Value::Scalar(status) => status.as_i64().filter(|status| *status != 0).map(|s| (&*param.name, s)),
        _ => None,
    }
}

/// A number or truth value as people write it.
fn scalar(text: &str) -> Result<Scalar> {
    match (super::number(text)?, text) {
        (Some(number), _) => Ok(number),
        (None, "true") => Ok(Scalar::from(true)),
        (None, "false") => Ok(Scalar::from(false)),
        _ => Err(Error::bad(format!("{text:?} is no number; write for example 2.5"))),
    }
}

/// A complex number as Python writes it: `2.5`, `2j`, `1+2j`, `(1e-3-2j)`.
fn complex(text: &str) -> Result<Scalar> {
    let wrong = || Error::bad(format!("{text:?} is no complex number; write for example 1+2j"));
    let inner = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')).unwrap_or(text);
    let Some(parts) = inner.strip_suffix(['j', 'J']) else {
        return super::number(inner)?.ok_or_else(wrong);
    };
    // The sign between the parts is the last one that belongs to no exponent.
    let bytes = parts.as_bytes();
    let is_between = |i: &usize| matches!(bytes[*i], b'+' | b'-') && !matches!(bytes[*i - 1], b'e' | b'E');
    let (re, im) = parts.split_at((1..bytes.len()).rev().find(is_between).unwrap_or(0));
    let part = |part: &str| match part {
        "" => Ok(0.0),
        part => match super::number(part)?.ok_or_else(wrong)?.number() {
            Number::Int(n) => Ok(n as f64),
            Number::Real(x) => Ok(x),
            _ => Err(wrong()),
        },
    };
    let im = match im {
        "" | "+" => 1.0,
        "-" => -1.0,
        im => part(im)?,
    };
    DType::C128.element(Number::Complex(part(re)?, im)).ok_or_else(wrong)
}

/// `64:f64` and `3x4:c128` are arrays of zeros.
fn zeros(text: &str) -> Result<Array> {
    let wrong = || {
        Error::bad(format!(
            "{text:?} is no array; name a .npy file, or give SHAPE:DTYPE such as 64:f64 or 3x4:f64"
        ))
    };
    let (shape, dtype) = text.split_once(':').ok_or_else(wrong)?;
    let dtype = DType::parse(dtype)?;
    let extents: Vec<u64> =
        shape.split('x').map(|n| n.trim().parse().map_err(|_| wrong())).collect::<Result<_>>()?;
    let meta = ArrayMeta::new(dtype, Shape::new(&extents)?);
    let bytes = meta.bytes()?;
    let mut zeros = Vec::new();
    usize::try_from(bytes).ok().and_then(|n| zeros.try_reserve_exact(n).ok()).ok_or_else(|| {
        Error::new(
            forebay::Code::Full,
            format!("an array {meta} of {bytes} bytes finds no memory; make it smaller"),
        )
    })?;
    zeros.resize(bytes as usize, 0);
    Ok(Array { meta, bytes: zeros })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_as_people_write_them() {
        assert_eq!(scalar("3").unwrap(), Scalar::from(3i64));
        assert_eq!(scalar("-2.5e3").unwrap(), Scalar::from(-2500.0));
        assert_eq!(scalar("true").unwrap(), Scalar::from(true));
        assert!(scalar("three").is_err());
        assert_eq!(scalar("18446744073709551615").unwrap(), Scalar::from(u64::MAX));
        for other in ["18446744073709551616", "-9223372036854775809", "1e400"] {
            assert!(scalar(other).unwrap_err().text().contains(other), "it would become another number");
        }
        assert_eq!(scalar("1e20").unwrap(), Scalar::from(1e20));
        assert_eq!(scalar("-inf").unwrap(), Scalar::from(f64::NEG_INFINITY));
        for (text, said) in [
            ("1+2j", "1.0+2.0j"),
            ("2j", "0.0+2.0j"),
            ("(-1-2.5j)", "-1.0-2.5j"),
            ("1e-3-2e+4j", "0.001-20000.0j"),
            ("-j", "0.0-1.0j"),
            ("1J", "0.0+1.0j"),
            ("inf-infj", "inf-infj"),
            ("3", "3"),
            ("(2.5)", "2.5"),
        ] {
            assert_eq!(complex(text).unwrap().to_string(), said, "{text}");
        }
        for bad in ["", "1+2", "1+-2j", "i", "1+2i", "1 + 2j", "jj", "true", "é+2j", "1+1e400j", "()"] {
            assert!(complex(bad).is_err(), "{bad}");
        }
        assert_eq!(zeros("3x4:f64").unwrap().meta.shape.extents(), [3, 4]);
        for bad in ["3x4", "x:f64", "3:float", "99999999999999:f64"] {
            assert!(zeros(bad).is_err(), "{bad}");
        }
    }
}
