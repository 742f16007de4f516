//! `forebay put`: an array, number or text into a run.

use super::npy;
use super::out::Out;
use forebay::{Array, ArrayMeta, Error, Mode, Order, PutOptions, Result, Shape, Strided, View};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Store a .npy file, a number or a text as a data set.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  forebay put two_stream probe/positions positions.npy --units m --attr kind='\"probe\"'"
)]
pub struct Put {
    /// The run; it is made when there is none, and may be one that its program writes just now.
    run: String,
    /// The data set.
    name: String,
    /// A .npy file, or a number.
    #[arg(allow_negative_numbers = true)]
    value: String,
    /// Take the value as a text.
    #[arg(long)]
    text: bool,
    /// Set number.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    set: i64,
    /// Its unit.
    #[arg(long, default_value = "")]
    units: String,
    /// An attribute as NAME=JSON; may be given several times.
    #[arg(long = "attr", value_name = "NAME=JSON")]
    attrs: Vec<String>,
}

impl Put {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let attrs = self.attributes()?;
        let number;
        let array: Array;
        let view = if self.text {
            View::text(&self.value)
        } else if self.value.ends_with(".npy") {
            array = npy::read(Path::new(&self.value))?;
            in_c_order(&array)?
        } else if let Some(v) = super::number(&self.value)? {
            number = v;
            View::new(ArrayMeta::new(number.dtype(), Shape::scalar()), number.bytes())?
        } else {
            return Err(Error::bad(format!(
                "{:?} is neither a .npy file nor a number; say --text to store it as a text",
                self.value
            )));
        };
        let run = super::beside::opened(&self.run, Mode::Append, view.nbytes() as u64)?;
        let options = PutOptions { set: self.set, units: &self.units, attrs: attrs.as_ref() };
        run.put(&self.name, view, options)?;
        run.flush()?;
        let meta = *view.meta();
        run.close()?;
        out.either(
            || json!({"name": self.name, "set": self.set, "dtype": meta.dtype.name(), "shape": meta.shape.extents()}),
            || format!("{}: {meta}", self.name),
        )
    }

    fn attributes(&self) -> Result<Option<Map<String, Value>>> {
        let mut map = Map::new();
        for text in &self.attrs {
            let (name, value) = text
                .split_once('=')
                .ok_or_else(|| Error::bad(format!("{text:?} is no attribute; write NAME=JSON")))?;
            let one = match serde_json::from_str::<Value>(value) {
                Ok(_) => forebay::attributes(&format!("{{{}: {value}}}", json!(name)))?,
                Err(_) => Map::from_iter([(name.to_owned(), Value::String(value.to_owned()))]),
            };
            map.extend(one);
        }
        Ok((!map.is_empty()).then_some(map))
    }
}

/// An array as Python puts it: h5py sees the shape and the indices that NumPy has, whatever the order of the file.
fn in_c_order(array: &Array) -> Result<View<'_>> {
    let meta = &array.meta;
    if meta.order == Order::C {
        return View::new(*meta, &array.bytes);
    }
    View::strided(meta.dtype, meta.shape, &Strided::dense(meta)?.strides(), 0, &array.bytes)
}
