//! What is kept as the server stores it: spatial values (SRID, then WKB; MySQL manual 13.4.3 "Supported
//! Spatial Data Formats", "Internal Geometry Storage Format") and VECTOR (32 bit floats, little endian;
//! manual 13.3.5 "The VECTOR Type"; MariaDB the same). Both ways carry the same bytes.

use super::Flaw;
use cdc_core::row::RowBuilder;

/// A spatial value.
#[inline]
pub fn geometry(bytes: &[u8], out: &mut RowBuilder) {
    out.push_geometry(bytes);
}

/// A VECTOR.
#[inline]
pub fn vector(bytes: &[u8], out: &mut RowBuilder) -> Result<(), Flaw> {
    if !bytes.len().is_multiple_of(4) {
        return Err(Flaw::undecodable(format!("a VECTOR of {} bytes", bytes.len())));
    }
    out.push_vector(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::value::Value;

    #[test]
    fn bytes_stay_as_they_are() {
        let mut out = RowBuilder::new();
        geometry(b"\0\0\0\0\x01\x01\0\0\0", &mut out);
        vector(&1.5f32.to_le_bytes(), &mut out).unwrap();
        assert!(vector(&[1, 2, 3], &mut out).is_err());
        let row = out.finish();
        assert_eq!(row.get(0), Value::Geometry(b"\0\0\0\0\x01\x01\0\0\0".into()));
        assert_eq!(row.get(1), Value::Vector(b"\0\0\xc0\x3f".into()));
    }
}
