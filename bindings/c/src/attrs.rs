//! Attributes of runs, data sets, tables and arrays of snapshots.

use std::borrow::Cow;
use std::ffi::{c_char, c_int};

use forebay::{
    Array, ArrayMeta, Code, DType, Error, Order, Result, Shape, Strided, Target, array_of_attribute,
    attribute_in, attribute_of_array, check_attribute_array,
};
use serde_json::{Map, Value};

use crate::arrays::{Given, fb_array};
use crate::data::{describe_array, fb_info, letters};
use crate::fault::{fb_status, status};
use crate::handle::InUse;
use crate::kinds::{fb_run, fb_snapshot};
use crate::run::RunObject;
use crate::snapshot::SnapshotObject;
use crate::{given, handle, memory};

/// Set number that stands for the table of that name.
const TABLE: i64 = i64::MIN + 1;

/// What has attributes. Made by fb_of_run, fb_of_dataset, fb_of_table and fb_of_array.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_object {
    /// The run, for its own attributes, those of a data set or of a table; else NULL.
    pub run: *mut fb_run,
    /// The snapshot, for those of one of its arrays; else NULL.
    pub snapshot: *mut fb_snapshot,
    /// Name of the data set, the table or the array; NULL: the run itself.
    pub name: *const c_char,
    /// Set number of the data set; FB_TABLE: it is a table.
    pub set: i64,
}

/// The object of a call, in use.
enum Attributed<'a> {
    Run(InUse<RunObject>, Target),
    Array(InUse<SnapshotObject>, &'a str),
}

impl fb_object {
    fn opened<'a>(&self) -> Result<Attributed<'a>> {
        match (self.run.is_null(), self.snapshot.is_null()) {
            (false, false) => Err(Error::bad(
                "an attribute is of a run or of a snapshot, and both are given; use fb_of_run, fb_of_dataset, fb_of_table or fb_of_array",
            )),
            (true, false) => {
                let snapshot = handle::get(self.snapshot)?;
                Ok(Attributed::Array(snapshot, given::text(self.name, "the name of the array")?))
            }
            (_, true) => Ok(Attributed::Run(handle::get(self.run)?, self.target()?)),
        }
    }

    /// What of a run it is.
    fn target(&self) -> Result<Target> {
        Ok(match given::optional_text(self.name, "name")? {
            None => Target::Run,
            Some(name) if self.set == TABLE => Target::Table { name: name.to_owned() },
            Some(name) => Target::DataSet { name: name.to_owned(), set: self.set },
        })
    }
}

impl Attributed<'_> {
    fn read(&self) -> Result<Map<String, Value>> {
        match self {
            Attributed::Run(object, target) => object.run.attrs(target),
            Attributed::Array(snapshot, name) => Ok(snapshot.kept()?.dataset(name)?.attrs),
        }
    }

    fn change(&self, attrs: Map<String, Value>) -> Result<()> {
        match self {
            Attributed::Run(object, target) => object.run.set_attrs(target, attrs),
            Attributed::Array(snapshot, name) => snapshot.taken()?.0.set_attrs(name, attrs),
        }
    }

    fn set(&self, key: *const c_char, value: Result<Value>) -> Result<()> {
        let key = given::text(key, "key")?;
        self.change(Map::from_iter([(kept_as(key).into_owned(), value?)]))
    }

    fn get(&self, key: &str) -> Result<Value> {
        let mut all = self.read()?;
        all.remove(&*kept_as(key)).ok_or_else(|| {
            let known: Vec<&String> = all.keys().collect();
            Error::new(Code::NotFound, format!("there is no attribute {key:?}; there are {known:?}"))
        })
    }
}

/// A key as it is kept: one that begins as the marks of values do has one more.
fn kept_as(key: &str) -> Cow<'_, str> {
    match key.starts_with('$') {
        true => format!("${key}").into(),
        false => key.into(),
    }
}

fn is_not(key: &str, value: &Value, what: &str) -> Error {
    Error::bad(format!("the attribute {key:?} is {value}, not {what}; read it as what it is"))
}

/// The bytes of a caller's array, row-major.
fn row_major(given: &Given) -> Result<(ArrayMeta, Vec<u8>)> {
    let view = given.view()?;
    let (meta, bytes) = (*view.meta(), view.bytes());
    if meta.order == Order::C {
        return Ok((meta, bytes.into_owned()));
    }
    let mut turned = vec![0; bytes.len()];
    Strided::dense(&meta)?.gather(&bytes, &mut turned);
    Ok((ArrayMeta::new(meta.dtype, meta.shape), turned))
}

/// Sets an attribute to a number, a truth value, a text, or an array of them.
///
/// A text is an array of FB_STR of one dimension, which counts its bytes, several are one of two. A single number is kept as
/// the number it is, an array with its dtype and shape, up to 64 KiB. Attributes of an array of a snapshot are set behind
/// its put, before the end of the snapshot; those that stand for elements, such as _FillValue, take its dtype.
#[unsafe(no_mangle)]
pub extern "C" fn fb_attr_put(of: fb_object, key: *const c_char, value: *const fb_array) -> fb_status {
    status(|| {
        let of = of.opened()?;
        let given = Given::of(value, "value")?;
        check_attribute_array(&given.meta)?;
        let (meta, bytes) = row_major(&given)?;
        of.set(key, attribute_of_array(&meta, &bytes))
    })
}

/// Reads an attribute into `value`, whose shape is that of the attribute (fb_attr_info tells it).
///
/// Its dtype may be another one where the numbers stay what they are: 3 goes into FB_F64, 3.0 not into FB_I64; a real number
/// is rounded to FB_F32. A text may have more room than it needs; the rest gets zeros.
#[unsafe(no_mangle)]
pub extern "C" fn fb_attr_get(of: fb_object, key: *const c_char, value: *const fb_array) -> fb_status {
    status(|| {
        let of = of.opened()?;
        let target = Given::of(value, "value")?;
        let key = given::text(key, "key")?;
        let meta = ArrayMeta::new(target.meta.dtype, target.meta.shape);
        let bytes = attribute_in(key, &of.get(key)?, &meta)?;
        target.take(key, &Array { meta, bytes })
    })
}

/// Describes an attribute: its name, and its dtype and shape as an array. The dtype is 0 when it is neither a number nor a
/// text nor an array, but what Python keeps beside these; fb_attr_get_json reads it.
#[unsafe(no_mangle)]
pub extern "C" fn fb_attr_info(of: fb_object, key: *const c_char, info: *mut fb_info) -> fb_status {
    status(|| {
        let of = of.opened()?;
        let (key, out) = (given::text(key, "key")?, given::out(info, "info")?);
        let found = array_of_attribute(&of.get(key)?);
        let about = match &found {
            Some((meta, _)) => describe_array(meta)?,
            None => fb_info {
                dtype: 0,
                nbytes: 0,
                ..describe_array(&ArrayMeta::new(DType::U8, Shape::scalar()))?
            },
        };
        out.set(fb_info { name: letters(key), ..about });
        Ok(())
    })
}

/// Sets an attribute to a real number.
#[unsafe(no_mangle)]
pub extern "C" fn fb_attr_set_f64(of: fb_object, key: *const c_char, value: f64) -> fb_status {
    let scalar = ArrayMeta::new(DType::F64, Shape::scalar());
    status(|| of.opened()?.set(key, attribute_of_array(&scalar, &value.to_le_bytes())))
}

/// Sets an attribute to an integer.
#[unsafe(no_mangle)]
pub extern "C" fn fb_attr_set_i64(of: fb_object, key: *const c_char, value: i64) -> fb_status {
    status(|| of.opened()?.set(key, Ok(value.into())))
}

/// Sets an attribute to a text.
#[unsafe(no_mangle)]
pub extern "C" fn fb_attr_set_str(of: fb_object, key: *const c_char, value: *const c_char) -> fb_status {
    status(|| of.opened()?.set(key, given::text(value, "value").map(Value::from)))
}

/// Sets several attributes of any kind: a JSON object. Null values delete; what is not named stays.
#[unsafe(no_mangle)]
pub extern "C" fn fb_attr_set_json(of: fb_object, json: *const c_char) -> fb_status {
    status(|| of.opened()?.change(forebay::attributes(given::text(json, "json")?)?))
}

/// Reads an attribute that is a real number or an integer; an integer that a double would round is FB_BAD_ARGUMENT.
#[unsafe(no_mangle)]
pub extern "C" fn fb_attr_get_f64(of: fb_object, key: *const c_char, value: *mut f64) -> fb_status {
    status(|| {
        let of = of.opened()?;
        let (key, out) = (given::text(key, "key")?, given::out(value, "value")?);
        let bytes = attribute_in(key, &of.get(key)?, &ArrayMeta::new(DType::F64, Shape::scalar()))?;
        out.set(f64::from_le_bytes(*eight(&bytes)?));
        Ok(())
    })
}

/// Reads an attribute that is an integer or a truth value (1 or 0); a real number, and an integer of 2^63 and more, is
/// FB_BAD_ARGUMENT.
#[unsafe(no_mangle)]
pub extern "C" fn fb_attr_get_i64(of: fb_object, key: *const c_char, value: *mut i64) -> fb_status {
    status(|| {
        let of = of.opened()?;
        let (key, out) = (given::text(key, "key")?, given::out(value, "value")?);
        let found = of.get(key)?;
        if let Some(truth) = found.as_bool() {
            out.set(truth.into());
            return Ok(());
        }
        let bytes = attribute_in(key, &found, &ArrayMeta::new(DType::I64, Shape::scalar()))?;
        out.set(i64::from_le_bytes(*eight(&bytes)?));
        Ok(())
    })
}

fn eight(bytes: &[u8]) -> Result<&[u8; 8]> {
    bytes.try_into().map_err(|_| Error::internal("a number of 8 bytes has others"))
}

/// Reads an attribute that is a text; free it with fb_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_attr_get_str(of: fb_object, key: *const c_char, value: *mut *mut c_char) -> fb_status {
    status(|| {
        let of = of.opened()?;
        let (key, out) = (given::text(key, "key")?, given::out(value, "value")?);
        let found = of.get(key)?;
        out.set(memory::give_text(found.as_str().ok_or_else(|| is_not(key, &found, "a text"))?)?);
        Ok(())
    })
}

/// Reads all attributes as a JSON object; free it with fb_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_attr_get_json(of: fb_object, json: *mut *mut c_char) -> fb_status {
    status(|| {
        let of = of.opened()?;
        let out = given::out(json, "json")?;
        out.set(memory::give_text(&Value::Object(of.read()?).to_string())?);
        Ok(())
    })
}

/// Deletes an attribute; one that is not there is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn fb_attr_delete(of: fb_object, key: *const c_char) -> fb_status {
    status(|| of.opened()?.set(key, Ok(Value::Null)))
}

/// Whether there is such an attribute: 1 or 0.
#[unsafe(no_mangle)]
pub extern "C" fn fb_attr_has(of: fb_object, key: *const c_char, has: *mut c_int) -> fb_status {
    status(|| {
        let of = of.opened()?;
        let (key, out) = (given::text(key, "key")?, given::out(has, "has")?);
        out.set(of.read()?.contains_key(&*kept_as(key)).into());
        Ok(())
    })
}
