//! Reads one field of an object.

use super::cursor::Cursor;
use super::text::unescape;
use crate::FieldPath;
use crate::codec::Value;
use crate::codec::object_error::ObjectFault;

/// The field at the end of a path. `None` if it is absent.
pub(super) fn read<'a>(object: &'a [u8], path: &FieldPath) -> Result<Option<Value<'a>>, ObjectFault> {
    let mut value = object;
    for (index, name) in path.names().enumerate() {
        let mut cursor = Cursor::new(value);
        if index > 0 && cursor.peek() != Some(b'{') {
            return Ok(None);
        }
        match last_member(value, &mut cursor, name)? {
            Some(found) => value = found,
            None => return Ok(None),
        }
    }
    to_value(value).map(Some)
}

/// The value of the last member with that name.
fn last_member<'a>(text: &'a [u8], cursor: &mut Cursor<'a>, name: &str) -> Result<Option<&'a [u8]>, ObjectFault> {
    let mut object = cursor.object()?;
    let mut last = None;
    while let Some(member) = cursor.member(&mut object)? {
        let is_it = &*member.name.text()? == name.as_bytes();
        let value = cursor.skip()?;
        if is_it {
            last = Some(&text[value]);
        }
    }
    cursor.end()?;
    Ok(last)
}

fn to_value(raw: &[u8]) -> Result<Value<'_>, ObjectFault> {
    Ok(match raw {
        b"null" => Value::Null,
        b"true" => Value::Bool(true),
        b"false" => Value::Bool(false),
        [b'"', text @ .., b'"'] => Value::String(unescape(text)?),
        [b'{' | b'[', ..] => Value::Raw(raw),
        // Skipping the value has checked that it is a number.
        _ => Value::Number(std::str::from_utf8(raw).map_err(|_| ObjectFault::Utf8 { offset: 0 })?),
    })
}
