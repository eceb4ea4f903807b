//! Puts the files of `web/` into the program, each as it is and in gzip, below the digest of all of them.

use data_encoding::HEXLOWER;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Modules of the login: a browser asks for them before it has read any of them.
const PRELOADED: [&str; 7] = ["app.js", "core.js", "api.js", "text.js", "format.js", "login.js", "theme.js"];

/// Digits of the digest in addresses.
const DIGITS: usize = 16;

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=web");
    let mut files = Vec::new();
    gather(Path::new("web"), &mut files)?;
    files.sort();
    let mut all = Sha256::new();
    let mut read = Vec::new();
    for path in &files {
        let name = path.strip_prefix("web").expect("is below it").to_str().expect("is text").to_owned();
        let bytes = fs::read(path)?;
        all.update(&name);
        all.update(&bytes);
        read.push((name, bytes));
    }
    let hash = HEXLOWER.encode(&all.finalize())[..DIGITS].to_owned();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says it"));
    let mut table = format!(
        "/// The digest of all files.\npub const HASH: &str = \"{hash}\";\n\nconst FILES: &[File] = &[\n"
    );
    for (at, (name, bytes)) in read.into_iter().enumerate() {
        let bytes = if name == "index.html" { shell(bytes, &hash) } else { bytes };
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&bytes)?;
        let (plain, gzip) = (out.join(format!("{at}.bytes")), out.join(format!("{at}.gz")));
        fs::write(&plain, bytes)?;
        fs::write(&gzip, packed.finish()?)?;
        writeln!(
            table,
            "    File {{ name: {name:?}, plain: include_bytes!({plain:?}), gzip: include_bytes!({gzip:?}) }},"
        )
        .expect("a text takes more");
    }
    fs::write(out.join("files.rs"), table + "];\n")
}

fn gather(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => gather(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}

/// The page that loads all else, with the addresses of this build.
fn shell(page: Vec<u8>, hash: &str) -> Vec<u8> {
    let page = String::from_utf8(page).expect("is text");
    let line = |name: &&str| format!("<link rel=\"modulepreload\" href=\"ui/HASH/{name}\">");
    let preloads: Vec<String> = PRELOADED.iter().map(line).collect();
    page.replace("PRELOADS", &preloads.join("\n")).replace("HASH", hash).into_bytes()
}
