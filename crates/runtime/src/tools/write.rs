//! `write`: a whole file.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use wolli_protocol::message::JsonObject;

use super::blocking::blocking;
use super::context::{ToolContext, ToolOutput};
use super::set::typed;
use super::spec::{Execution, Tool, ToolFuture, ToolSpec, builtin};
use super::{atomic, locks, path};

#[derive(Debug)]
struct Write(ToolSpec);

pub(super) fn tool() -> Arc<dyn Tool> {
    Arc::new(Write(builtin(
        "write",
        "write",
        Execution::Parallel,
        "Write a text file: creates it, with its parent folders, or replaces its whole content. To change parts of an existing file use edit.",
        json!({
            "type": "object",
            "required": ["path", "content"],
            "properties": {
                "path": {"type": "string", "description": "The file, relative to your home or absolute"},
                "content": {"type": "string", "description": "The whole new content"}
            }
        }),
        "Create or overwrite a file",
        &["Use write only for new files or complete rewrites"],
    )))
}

#[derive(Debug, Deserialize)]
struct Arguments {
    path: String,
    content: String,
}

impl Tool for Write {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, arguments: JsonObject, context: &'a ToolContext) -> ToolFuture<'a> {
        Box::pin(async move {
            let Arguments { path: argument, content } = typed(arguments)?;
            let file = path::resolve(&argument, context);
            let real = {
                let file = file.clone();
                blocking(&context.cancel, move |_| Ok(path::real(&file))).await?
            };
            let lock = locks::lock(&real, &context.cancel).await?;
            let control = context.control.clone();
            let length = content.len();
            blocking(&context.cancel, move |abort| {
                let _held = lock;
                control.refuse(&file)?;
                atomic::replace(&file, content.as_bytes(), None, abort)
            })
            .await?;
            Ok(ToolOutput::text(format!("Successfully wrote {length} bytes to {argument}")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testing::Home;

    #[tokio::test]
    async fn bytes_are_counted_and_folders_made() {
        let home = Home::new();
        let output = home.call("write", json!({"path": "@a/b.txt", "content": "é😀"})).await;
        assert_eq!(output, ToolOutput::text("Successfully wrote 6 bytes to @a/b.txt"));
        assert_eq!(home.read("a/b.txt"), "é😀");
        home.good("write", json!({"path": "a/b.txt", "content": ""})).await;
        assert_eq!(home.read("a/b.txt"), "");
    }

    #[tokio::test]
    async fn errors_name_the_file() {
        let home = Home::new();
        home.write("file", "x");
        home.write("dir/x", "x");
        for (path, expected) in [
            ("dir", "EISDIR: illegal operation on a directory, open 'HOME/dir'"),
            ("file/x", "EEXIST: file already exists, mkdir 'HOME/file'"),
            ("a\0b", "EINVAL: invalid argument, open 'HOME/a\0b'"),
        ] {
            assert_eq!(home.bad("write", json!({"path": path, "content": "y"})).await, expected);
        }
        let long = "x".repeat(300);
        assert!(home.bad("write", json!({"path": long, "content": "y"})).await.starts_with("ENAMETOOLONG: "));
        assert_eq!(home.read("file"), "x");
    }

    #[tokio::test]
    async fn many_writers_of_one_file_leave_one_whole_text() {
        let home = Home::new();
        std::os::unix::fs::symlink("target", home.path("link")).unwrap();
        let texts: Vec<String> = (0..8_u8).map(|index| char::from(b'a' + index).to_string().repeat(50_000)).collect();
        let calls = texts.iter().enumerate().map(|(index, text)| {
            let name = if index % 2 == 0 { "link" } else { "target" };
            home.call("write", json!({"path": name, "content": text}))
        });
        for output in futures_util::future::join_all(calls).await {
            assert!(!output.is_error, "{output:?}");
        }
        assert!(texts.contains(&home.read("target")));
        assert!(home.path("link").is_symlink());
        assert_eq!(crate::tools::testing::names(&home.path("")), ["link", "target"]);
    }
}
