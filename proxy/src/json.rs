//! Writes records as JSON, several times a request.
//!
//! Problem: `serde_json` looks at every character of every field's name for something to escape, and
//! a record has seventy names that never hold any. Idea: a serializer of our own for serde, so that
//! fields stay declared where the record is, which writes names as they are and looks at the
//! characters of a value all at once; numbers, and texts in which something is to be escaped, are
//! left to `serde_json`. The output is the same, byte for byte.
//!
//! Limits: it writes what records are made of: structures, maps with text as keys, lists, texts,
//! numbers and names of variants. It refuses the rest, such as variants with content.

use std::fmt::{Display, Write as _};

use serde::ser::{
    Error as _, Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct, Serializer,
};
use serde_json::Error;

/// Appends a record to `out`.
///
/// # Errors
///
/// It holds something that records are not made of; `out` then ends in the middle of it.
pub fn write(out: &mut Vec<u8>, record: &impl Serialize) -> Result<(), Error> {
    record.serialize(Writer(out))
}

struct Writer<'a>(&'a mut Vec<u8>);

/// A structure, map or list that is being written.
struct Parts<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
    close: u8,
}

impl<'a> Parts<'a> {
    fn open(out: &'a mut Vec<u8>, brackets: [u8; 2]) -> Self {
        let [open, close] = brackets;
        out.push(open);
        Self {
            out,
            first: true,
            close,
        }
    }

    fn next(&mut self) -> Writer<'_> {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        Writer(self.out)
    }

    fn close(self) {
        self.out.push(self.close);
    }
}

impl Writer<'_> {
    fn literal(self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    /// A text that holds nothing to escape, such as a name in this program.
    fn plain(self, text: &str) {
        self.0.push(b'"');
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(b'"');
    }

    fn text(self, text: &str) -> Result<(), Error> {
        if is_plain(text.as_bytes()) {
            self.plain(text);
            return Ok(());
        }
        serde_json::to_writer(self.0, text)
    }

    fn other(self, value: &impl Serialize) -> Result<(), Error> {
        serde_json::to_writer(self.0, value)
    }
}

/// Whether none of the bytes is escaped in JSON. All are looked at, so that many are at once.
fn is_plain(bytes: &[u8]) -> bool {
    let special = |byte: u8| matches!(byte, 0..0x20 | b'"' | b'\\');
    let count = bytes.iter().map(|byte| u32::from(special(*byte)));
    count.sum::<u32>() == 0
}

fn refused<T>() -> Result<T, Error> {
    Err(Error::custom("records are not made of this"))
}

impl<'a> Serializer for Writer<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Parts<'a>;
    type SerializeTuple = Impossible<(), Error>;
    type SerializeTupleStruct = Impossible<(), Error>;
    type SerializeTupleVariant = Impossible<(), Error>;
    type SerializeMap = Parts<'a>;
    type SerializeStruct = Parts<'a>;
    type SerializeStructVariant = Impossible<(), Error>;

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.literal(if value { "true" } else { "false" });
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Result<(), Error> {
        self.other(&value)
    }

    fn serialize_i16(self, value: i16) -> Result<(), Error> {
        self.other(&value)
    }

    fn serialize_i32(self, value: i32) -> Result<(), Error> {
        self.other(&value)
    }

    fn serialize_i64(self, value: i64) -> Result<(), Error> {
        self.other(&value)
    }

    fn serialize_u8(self, value: u8) -> Result<(), Error> {
        self.other(&value)
    }

    fn serialize_u16(self, value: u16) -> Result<(), Error> {
        self.other(&value)
    }

    fn serialize_u32(self, value: u32) -> Result<(), Error> {
        self.other(&value)
    }

    fn serialize_u64(self, value: u64) -> Result<(), Error> {
        self.other(&value)
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        self.other(&value)
    }

    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        self.other(&value)
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.other(&value)
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        self.text(value)
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        self.other(&value)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.literal("null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), Error> {
        self.text(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), Error> {
        refused()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Parts<'a>, Error> {
        Ok(Parts::open(self.0, *b"[]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Impossible<(), Error>, Error> {
        refused()
    }

    fn serialize_tuple_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<Impossible<(), Error>, Error> {
        refused()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Impossible<(), Error>, Error> {
        refused()
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Parts<'a>, Error> {
        Ok(Parts::open(self.0, *b"{}"))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Parts<'a>, Error> {
        Ok(Parts::open(self.0, *b"{}"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Impossible<(), Error>, Error> {
        refused()
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        let mut text = Text {
            bytes: [0; 40],
            length: 0,
        };
        // Writing to it cannot fail; a value that fails to show itself is left as far as it came.
        let _ = write!(text, "{value}");
        match text.whole() {
            Some(short) => self.text(short),
            None => self.text(&value.to_string()),
        }
    }
}

/// A short text on the stack: ids, amounts and times.
struct Text {
    bytes: [u8; 40],
    length: usize,
}

impl Text {
    /// What was written, unless it was too long.
    fn whole(&self) -> Option<&str> {
        std::str::from_utf8(self.bytes.get(..self.length)?).ok()
    }
}

impl std::fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        if let Some(place) = self.bytes.get_mut(self.length..end) {
            place.copy_from_slice(text.as_bytes());
        }
        self.length = end;
        Ok(())
    }
}

impl SerializeSeq for Parts<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(self.next())
    }

    fn end(self) -> Result<(), Error> {
        self.close();
        Ok(())
    }
}

impl SerializeMap for Parts<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        let start = self.out.len();
        key.serialize(self.next())?;
        // JSON knows text as keys only.
        match self.out.get(start..) {
            Some([b'"', ..] | [b',', b'"', ..]) => Ok(()),
            _ => refused(),
        }
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.out.push(b':');
        value.serialize(Writer(self.out))
    }

    fn end(self) -> Result<(), Error> {
        self.close();
        Ok(())
    }
}

impl SerializeStruct for Parts<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        // Names of fields are identifiers.
        self.next().plain(name);
        self.out.push(b':');
        value.serialize(Writer(self.out))
    }

    fn end(self) -> Result<(), Error> {
        self.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::Serialize;

    use super::{Serializer, write};
    use crate::store::tests::exchange;

    fn written(record: &impl Serialize) -> String {
        let mut out = Vec::new();
        write(&mut out, record).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_exchange_is_written_as_serde_json_would() {
        for number in 0..20 {
            let mut exchange = exchange(number);
            exchange.user = Some("a \"name\"\n\u{1}\u{7f} – 日本\\".to_owned());
            assert_eq!(
                written(&exchange),
                serde_json::to_string(&exchange).unwrap()
            );
        }
    }

    #[test]
    fn what_json_has_no_form_for_is_refused() {
        let numbered: BTreeMap<u32, u32> = [(1, 2)].into();
        assert!(write(&mut Vec::new(), &numbered).is_err());
        assert!(write(&mut Vec::new(), &(1, 2)).is_err());
    }

    #[derive(Serialize)]
    struct Record {
        text: String,
        tags: BTreeMap<String, Option<String>>,
        list: Vec<i64>,
        exact: u64,
        share: f64,
        flag: bool,
        #[serde(serialize_with = "shown")]
        shown: String,
        nothing: (),
    }

    fn shown<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(text)
    }

    proptest! {
        #[test]
        fn every_record_is_written_as_serde_json_would(
            text in ".*",
            tags in proptest::collection::btree_map("\\PC*", proptest::option::of(".*"), 0..4),
            list in proptest::collection::vec(any::<i64>(), 0..4),
            exact in any::<u64>(),
            share in any::<f64>(),
            flag in any::<bool>(),
            shown in ".{0,60}",
        ) {
            let record = Record { text, tags, list, exact, share, flag, shown, nothing: () };
            prop_assert_eq!(written(&record), serde_json::to_string(&record).unwrap());
        }
    }
}
