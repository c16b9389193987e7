//! Tests that decode the encoded pictures. The decoders were written independently, from the specifications of the
//! three protocols.

use super::*;
use clk_host::files;
use clk_host::value::HostValue;

fn detected(set: &[(&str, &str)]) -> Option<Option<Protocol>> {
    detect_by_environment(|name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string()))
}

#[test]
fn terminals_are_detected_by_environment() {
    assert_eq!(detected(&[("TERM", "xterm-kitty")]), Some(Some(Protocol::Kitty)));
    assert_eq!(detected(&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "iTerm.app")]), Some(Some(Protocol::ITerm)));
    assert_eq!(detected(&[("TERM", "xterm-256color")]), None);
    assert_eq!(detected(&[("TERM", "tmux-256color"), ("TMUX", "x"), ("KITTY_WINDOW_ID", "1")]), None);
    assert_eq!(detected(&[("TERM", "dumb")]), Some(None));
    assert_eq!(detected(&[("CLK_GRAPHICS", "sixel"), ("TERM", "dumb")]), Some(Some(Protocol::Sixel)));
    assert_eq!(detected(&[("CLK_GRAPHICS", "none"), ("TERM", "xterm-kitty")]), Some(None));
}

#[cfg(unix)]
#[test]
fn terminal_answers_are_parsed() {
    assert!(query::lists_sixel(b"\x1b[?62;4;22c"));
    assert!(!query::lists_sixel(b"\x1b[?64;1;2;6;22c") && !query::lists_sixel(b"\x1b[?4c") && !query::lists_sixel(b""));
}

#[test]
fn pictures_in_each_protocol() {
    let pixels = [255, 0, 0].repeat(8).into_iter().chain([0, 0, 255].repeat(8)).collect();
    let raster = Raster { width: 8, height: 2, pixels };
    let kitty = draw(&raster, Protocol::Kitty).expect("a picture");
    assert!(kitty.starts_with("\x1b_Ga=T,f=100,q=2,m=0;iVBOR") && kitty.ends_with("\x1b\\\n"));
    let iterm = draw(&raster, Protocol::ITerm).expect("a picture");
    assert!(iterm.starts_with("\x1b]1337;File=inline=1;size=") && iterm.ends_with("\x07\n"));
    // Blue is color 5 and fills the second row (bit 2); red is color 180 and fills the first row (bit 1). Both have
    // eight columns.
    let sixel = draw(&raster, Protocol::Sixel).expect("a picture");
    assert!(sixel.starts_with("\x1bP0;1q\"1;1;8;2") && sixel.ends_with("#5!8A$#180!8@-\x1b\\\n"), "{sixel:?}");
}

/// Returns a picture in which neighboring pixels differ. If `exact`, it has only colors of the color cube.
fn colorful(width: usize, height: usize, exact: bool) -> Raster {
    let pixels = (0..width * height).flat_map(|at| {
        // Hashes the position: the result is nearly random, so that it does not compress.
        let mut mixed = (at as u32 + 1).wrapping_mul(2_654_435_761);
        mixed = (mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca6b);
        mixed ^= mixed >> 13;
        let part = |shift: u32| (mixed >> shift & 255) as u8;
        [8, 16, 24].map(|shift| if exact { part(shift) % 6 * 51 } else { part(shift) })
    });
    Raster { width, height, pixels: pixels.collect() }
}

/// Decodes Base64 with padding.
fn decode_base64(text: &str) -> Vec<u8> {
    assert_eq!(text.len() % 4, 0, "padded");
    let digit = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        b'=' => 0,
        _ => panic!("{:?} is no Base64", char::from(c)),
    };
    let mut bytes: Vec<u8> = Vec::new();
    for group in text.as_bytes().chunks(4) {
        let bits = group.iter().fold(0u32, |bits, &c| bits << 6 | u32::from(digit(c)));
        bytes.extend(&bits.to_be_bytes()[1..]);
    }
    let padding = text.bytes().rev().take_while(|&c| c == b'=').count();
    bytes.truncate(bytes.len() - padding);
    bytes
}

fn of_png(bytes: &[u8]) -> Raster {
    let Ok(HostValue::Array(array)) = files::decode("picture.png", bytes) else { panic!("not a PNG file") };
    Raster::of(&array).expect("a picture")
}

#[test]
fn kitty_gets_the_picture_in_chunks() {
    let raster = colorful(120, 90, false);
    let text = draw(&raster, Protocol::Kitty).expect("a picture");
    let pieces: Vec<&str> = text.trim_end().split_terminator("\x1b\\").collect();
    assert!(pieces.len() > 3, "random pixels do not fit into few pieces");
    let mut data = String::new();
    for (i, piece) in pieces.iter().enumerate() {
        let (control, payload) = piece.strip_prefix("\x1b_G").and_then(|p| p.split_once(';')).expect("a command");
        let last = i + 1 == pieces.len();
        let keys: Vec<&str> = control.split(',').collect();
        assert_eq!(keys.last(), Some(&if last { "m=0" } else { "m=1" }));
        // Only the first chunk has keys other than `m`.
        assert_eq!(keys.len() > 1, i == 0, "{control}");
        assert!(payload.len() <= 4096 && (last || payload.len() % 4 == 0), "{}", payload.len());
        data += payload;
    }
    assert!(pieces[0].contains("a=T") && pieces[0].contains("f=100") && pieces[0].contains("q=2"));
    let shown = of_png(&decode_base64(&data));
    assert_eq!((shown.width, shown.height), (120, 90));
    assert!(shown.pixels == raster.pixels, "not the same picture");
}

#[test]
fn iterm_gets_the_picture_in_one_part() {
    let raster = colorful(31, 17, false);
    let text = draw(&raster, Protocol::ITerm).expect("a picture");
    let inner = text.strip_prefix("\x1b]1337;File=").and_then(|t| t.strip_suffix("\x07\n")).expect("a command");
    let (arguments, data) = inner.split_once(':').expect("data behind a colon");
    let bytes = decode_base64(data);
    assert!(arguments.split(';').any(|a| a == "inline=1"), "it would be downloaded: {arguments}");
    assert!(arguments.split(';').any(|a| a == format!("size={}", bytes.len())), "{arguments}");
    assert!(of_png(&bytes).pixels == raster.pixels, "not the same picture");
}

/// Returns the number at the beginning of a text, and the rest of the text.
fn number(text: &str) -> (usize, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (text[..end].parse().expect("a number"), &text[end..])
}

/// Decodes a Sixel picture with color registers, bands of six rows and run lengths.
fn of_sixel(text: &str) -> Raster {
    let inner = text.strip_prefix("\x1bP").and_then(|t| t.strip_suffix("\x1b\\\n")).expect("a device control string");
    let (_, inner) = inner.split_once('q').expect("the mark of sixel");
    let (size, mut rest) = inner.split_at(inner.find('#').expect("a color"));
    let size: Vec<usize> = size.trim_start_matches('"').split(';').map(|n| n.parse().expect("a number")).collect();
    let [1, 1, width, height] = size[..] else { panic!("square pixels and a size: {size:?}") };
    let mut shown = Raster { width, height, pixels: vec![1; width * height * 3] };
    let mut registers = std::collections::BTreeMap::new();
    let (mut color, mut x, mut band) = ([0u8; 3], 0, 0);
    while let Some(mark) = rest.chars().next() {
        rest = &rest[1..];
        let mut run = 1;
        let mut mark = mark;
        if mark == '!' {
            (run, rest) = number(rest);
            mark = rest.chars().next().expect("what is repeated");
            rest = &rest[1..];
        }
        match mark {
            '#' => {
                let (register, behind) = number(rest);
                rest = behind;
                if let Some(definition) = rest.strip_prefix(";2;") {
                    let (red, behind) = number(definition);
                    let (green, behind) = number(&behind[1..]);
                    let (blue, behind) = number(&behind[1..]);
                    registers.insert(register, [red, green, blue].map(|percent| (percent * 255 / 100) as u8));
                    rest = behind;
                } else {
                    color = registers[&register];
                }
            }
            '$' => x = 0,
            '-' => (x, band) = (0, band + 1),
            '?'..='~' => {
                let bits = mark as usize - 63;
                for (x, row) in
                    (x..x + run).flat_map(|x| (0..6).map(move |row| (x, row))).filter(|(_, row)| bits >> row & 1 == 1)
                {
                    let y = band * 6 + row;
                    assert!(x < width && y < height, "a pixel outside of the picture: {x}, {y}");
                    shown.pixels[(y * width + x) * 3..][..3].copy_from_slice(&color);
                }
                x += run;
            }
            other => panic!("{other:?} is nothing in sixel"),
        }
    }
    shown
}

#[test]
fn sixel_shows_the_picture() {
    // A picture of seven rows, so that the second band is partial, with runs of all lengths.
    let mut raster = colorful(37, 7, true);
    raster.pixels[..3 * 30].fill(102);
    let shown = of_sixel(&draw(&raster, Protocol::Sixel).expect("a picture"));
    assert_eq!((shown.width, shown.height), (37, 7));
    assert!(shown.pixels == raster.pixels, "colors of the cube stay as they are");
    // A color that is not in the cube is dithered between its two nearest levels, and keeps its average over an area.
    let raster = colorful(64, 48, false);
    let shown = of_sixel(&draw(&raster, Protocol::Sixel).expect("a picture"));
    let far = shown.pixels.iter().zip(&raster.pixels).filter(|(a, b)| a.abs_diff(**b) > 51).count();
    assert_eq!(far, 0);
    let raster = Raster { width: 64, height: 64, pixels: vec![120; 64 * 64 * 3] };
    let shown = of_sixel(&draw(&raster, Protocol::Sixel).expect("a picture"));
    let mean = shown.pixels.iter().map(|&p| f64::from(p)).sum::<f64>() / shown.pixels.len() as f64;
    assert!((mean - 120.0).abs() < 4.0, "{mean}");
}
