//! A column of many rows as one parameter: an array in the server's binary form.
//!
//! The form: dimensions (1, or 0 for an empty array), 1 if there are NULLs, the type of the elements, length and lower
//! bound of the dimension; then each element, its length in front, -1 for NULL. All numbers are big endian and of 32
//! bits.

use tokio_postgres::types::Type;

const HEAD: usize = 20;

/// An array that grows.
#[derive(Debug, Clone)]
pub(crate) struct Array {
    bytes: Vec<u8>,
    count: i32,
    has_null: bool,
    element: u32,
}

impl Array {
    pub(crate) fn of(element: &Type) -> Array {
        Array { bytes: vec![0; HEAD], count: 0, has_null: false, element: element.oid() }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn push(&mut self, element: Option<&[u8]>) {
        self.count += 1;
        match element.and_then(|bytes| Some((bytes, i32::try_from(bytes.len()).ok()?))) {
            Some((bytes, length)) => {
                self.bytes.extend_from_slice(&length.to_be_bytes());
                self.bytes.extend_from_slice(bytes);
            }
            None => {
                self.has_null = true;
                self.bytes.extend_from_slice(&(-1i32).to_be_bytes());
            }
        }
    }

    pub(crate) fn push_int(&mut self, element: i32) {
        self.push(Some(&element.to_be_bytes()));
    }

    /// The array as it is sent.
    pub(crate) fn finish(&mut self) -> &[u8] {
        let dimensions = i32::from(self.count > 0);
        let element = self.element.to_be_bytes();
        for (i, field) in [
            dimensions.to_be_bytes(),
            i32::from(self.has_null).to_be_bytes(),
            element,
            self.count.to_be_bytes(),
            1i32.to_be_bytes(),
        ]
        .into_iter()
        .enumerate()
        {
            self.bytes[i * 4..i * 4 + 4].copy_from_slice(&field);
        }
        if self.count > 0 { &self.bytes } else { &self.bytes[..12] }
    }
}
