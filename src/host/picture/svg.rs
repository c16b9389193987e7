//! Writes drawings and pictures as SVG.

use std::fmt::Write as _;

use super::base64;
use super::drawing::{Anchor, Color, Drawing, DrawnShape, HEIGHT, PAPER, PixelPoint, TEXT_COLOR, WIDTH};
use clk_base::stop;

/// Writes a drawing as SVG.
pub(crate) fn of_drawing(drawing: &Drawing) -> String {
    let mut text = open(WIDTH, HEIGHT);
    let _ = writeln!(text, "<rect width=\"100%\" height=\"100%\" fill=\"{}\"/>", hex(PAPER));
    for shape in stop::polled(&drawing.shapes) {
        write_shape(&mut text, shape);
    }
    text + "</svg>\n"
}

/// Returns an SVG file with an embedded PNG image.
pub(crate) fn of_png(width: usize, height: usize, png: &[u8]) -> String {
    let data = base64::encode(png);
    let size = format!("width=\"{width}\" height=\"{height}\"");
    let image =
        format!("<image {size} style=\"image-rendering: pixelated\" href=\"data:image/png;base64,{data}\"/>\n</svg>\n");
    open(width, height) + &image
}

fn open(width: usize, height: usize) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n"
    )
}

fn write_shape(text: &mut String, shape: &DrawnShape) {
    // Writing to a string cannot fail.
    let _ = match shape {
        DrawnShape::Rectangle { corner: (x, y), size: (width, height), color, opacity } => writeln!(
            text,
            "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" fill=\"{}\"{}/>",
            hex(*color),
            opacity_attribute(*opacity)
        ),
        DrawnShape::Polyline { points, width, color } => writeln!(
            text,
            "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\" stroke-linejoin=\"round\" \
             stroke-linecap=\"round\" points=\"{}\"/>",
            hex(*color),
            coordinates(points)
        ),
        DrawnShape::Polygon { points, color, opacity } => {
            let (color, opacity) = (hex(*color), opacity_attribute(*opacity));
            writeln!(text, "<polygon fill=\"{color}\"{opacity} points=\"{}\"/>", coordinates(points))
        }
        DrawnShape::Disc { center: (x, y), radius, color } => {
            writeln!(text, "<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"{radius}\" fill=\"{}\"/>", hex(*color))
        }
        DrawnShape::Text { text: words, at: (x, y), anchor, is_vertical } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            let turn = if *is_vertical { format!(" transform=\"rotate(-90 {x:.2} {y:.2})\"") } else { String::new() };
            writeln!(
                text,
                "<text x=\"{x:.2}\" y=\"{y:.2}\" dy=\"0.35em\" font-family=\"sans-serif\" font-size=\"16\" \
                 text-anchor=\"{anchor}\"{turn} fill=\"{}\">{}</text>",
                hex(TEXT_COLOR),
                escape(words)
            )
        }
    };
}

fn coordinates(points: &[PixelPoint]) -> String {
    let mut text = String::new();
    for (at, (x, y)) in stop::polled(points.iter().enumerate()) {
        let space = if at == 0 { "" } else { " " };
        let _ = write!(text, "{space}{x:.2},{y:.2}");
    }
    text
}

fn opacity_attribute(opacity: f64) -> String {
    if opacity < 1.0 { format!(" fill-opacity=\"{opacity}\"") } else { String::new() }
}

fn hex([red, green, blue]: Color) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Escapes the markup of XML in a text without control characters.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
