//! CRC32C (Castagnoli), the checksum of every byte on disk and between nodes, and CRC-32 (ISO-HDLC), which streams have in
//! their chunks. In hardware where there is any.

/// The CRC32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// The CRC32C of the bytes that `crc` covered followed by `bytes`.
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

/// The CRC-32 of `bytes`.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn check_value_of_the_standard() {
        // RFC 3720 appendix B.4 and the catalogue's check value.
        assert_eq!(super::crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(super::crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(super::crc32c_append(super::crc32c(b"1234"), b"56789"), 0xE306_9283);
        assert_eq!(super::crc32(b"123456789"), 0xCBF4_3926);
    }
}
