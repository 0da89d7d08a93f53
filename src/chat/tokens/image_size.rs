//! Width and height of an image, read from the beginning of its data. Pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Bytes that are enough for every format except JPEG.
const HEAD: usize = 30;
/// Bytes of a JPEG that are searched: its size follows its metadata, which may contain a small picture.
const JPEG_HEAD: usize = 192 << 10;

/// Returns width and height of a PNG, GIF, WebP or JPEG image in base64; `None` if they are not found.
pub fn image_size(data: &str) -> Option<(u32, u32)> {
    let head = decoded(data, HEAD)?;
    match &head[..] {
        [0x89, b'P', b'N', b'G', ..] => {
            Some((big_endian(&head, 16, 4)?, big_endian(&head, 20, 4)?))
        }
        [b'G', b'I', b'F', ..] => Some((little_endian(&head, 6, 2)?, little_endian(&head, 8, 2)?)),
        [b'R', b'I', b'F', b'F', ..] => webp_size(&head),
        [0xff, 0xd8, ..] => jpeg_size(&decoded(data, JPEG_HEAD)?),
        _ => None,
    }
}

/// Decodes about the first `length` bytes.
fn decoded(data: &str, length: usize) -> Option<Vec<u8>> {
    let whole_groups = (length.div_ceil(3) * 4).min(data.len() / 4 * 4);
    STANDARD.decode(data.get(..whole_groups)?).ok()
}

fn big_endian(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + length)?;
    Some(
        bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | u32::from(*byte)),
    )
}

fn little_endian(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + length)?;
    let from_high = bytes.iter().rev();
    Some(from_high.fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
}

fn webp_size(head: &[u8]) -> Option<(u32, u32)> {
    match head.get(12..16)? {
        b"VP8 " => Some((
            little_endian(head, 26, 2)? & 0x3fff,
            little_endian(head, 28, 2)? & 0x3fff,
        )),
        b"VP8L" => {
            let bits = little_endian(head, 21, 4)?;
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8X" => Some((
            little_endian(head, 24, 3)? + 1,
            little_endian(head, 27, 3)? + 1,
        )),
        _ => None,
    }
}

/// Finds the segment that begins a frame.
fn jpeg_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        let marker = big_endian(bytes, at, 2)?;
        match marker {
            0xffc4 | 0xffc8 | 0xffcc => {}
            0xffc0..=0xffcf => {
                return Some((big_endian(bytes, at + 7, 2)?, big_endian(bytes, at + 5, 2)?));
            }
            0xff00..=0xffff => {}
            _ => return None,
        }
        at += 2 + big_endian(bytes, at + 2, 2)? as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(bytes: &[u8]) -> Option<(u32, u32)> {
        image_size(&STANDARD.encode(bytes))
    }

    #[test]
    fn every_format_has_a_size() {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        png.extend([0, 0, 7, 128, 0, 0, 4, 56, 8, 6, 0, 0, 0]);
        assert_eq!(size(&png), Some((1920, 1080)));
        assert_eq!(size(b"GIF89a\x40\x01\xf0\0\0\0\0"), Some((320, 240)));
        let webp = |kind: &[u8], rest: &[u8]| {
            let mut bytes = b"RIFF\0\0\0\0WEBP".to_vec();
            bytes.extend(kind);
            bytes.extend([0; 4]);
            bytes.extend(rest);
            size(&bytes)
        };
        let lossy = [0, 0, 0, 0x9d, 1, 0x2a, 0x40, 1, 0xf0, 0];
        assert_eq!(webp(b"VP8 ", &lossy), Some((320, 240)));
        let lossless = [0x2f, 0x3f, 0xc1, 0x3b, 0, 0, 0, 0, 0, 0];
        assert_eq!(webp(b"VP8L", &lossless), Some((320, 240)));
        let extended = [0, 0, 0, 0, 0x3f, 1, 0, 0xef, 0, 0];
        assert_eq!(webp(b"VP8X", &extended), Some((320, 240)));
        let mut jpeg = vec![0xff, 0xd8, 0xff, 0xe1, 0x40, 0];
        jpeg.resize(4 + 0x4000, 7);
        jpeg.extend([
            0xff, 0xc4, 0, 3, 0, 0xff, 0xc2, 0, 17, 8, 0, 240, 1, 64, 3, 1,
        ]);
        assert_eq!(size(&jpeg), Some((320, 240)));
    }

    #[test]
    fn damaged_images_have_no_size() {
        assert_eq!(image_size(""), None);
        assert_eq!(image_size("not base64!"), None);
        assert_eq!(size(b"\x89PNG\r\n"), None);
        assert_eq!(size(b"RIFF\0\0\0\0WEBPVP8?0123456789012345"), None);
        // Segments without a frame, and a marker that is none.
        assert_eq!(size(&[0xff, 0xd8, 0xff, 0xe0, 0, 2]), None);
        assert_eq!(size(&[0xff, 0xd8, 1, 2, 3, 4, 5, 6]), None);
    }
}
