//! The tree of a session file and the branch that is active in it. Plain data, no file access.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::line::{Line, LineKind};

/// One entry's place in the tree and in the file.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) id: Arc<str>,
    parent: Option<usize>,
    pub(super) kind: LineKind,
    /// Provider and id of the model that an answer came from; neighbours share it.
    model: Option<Arc<(String, String)>>,
    /// Bytes of the line in the file, without the line break.
    pub(super) range: Range<u64>,
}

/// All entries of a file in file order, and the active position.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    by_id: HashMap<Arc<str>, usize>,
    leaf: Option<usize>,
    last_model: Option<Arc<(String, String)>>,
    /// The newest name in the file, trimmed; `None` if unnamed.
    pub(super) name: Option<String>,
}

impl Tree {
    /// Adds the next line of the file. A parent that is not there (its line was lost) is replaced by the nearest
    /// earlier entry, so that one bad line never hides what follows it. Returns false if that happened.
    pub(super) fn push(&mut self, line: Line<'_>, range: Range<u64>) -> bool {
        let mut whole = true;
        let parent = line.parent.as_deref().and_then(|parent| {
            // Mostly it is the line before.
            let before = self.nodes.last().filter(|before| *before.id == *parent).map(|_| self.nodes.len() - 1);
            let found = before.or_else(|| self.by_id.get(parent).copied());
            whole &= found.is_some();
            found.or_else(|| self.nodes.len().checked_sub(1))
        });
        if let LineKind::SessionInfo { name } = &line.kind {
            self.name = name.as_deref().map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
        }
        if let LineKind::Leaf { target } = &line.kind {
            // Leaf entries move the position and are never parents.
            let found = target.as_deref().and_then(|target| self.by_id.get(target).copied());
            if found.is_none() && target.is_some() {
                whole = false;
            } else {
                self.leaf = found;
            }
            return whole;
        }
        let index = self.nodes.len();
        let id: Arc<str> = line.id.into();
        self.by_id.insert(Arc::clone(&id), index);
        let model = line.model.map(|(provider, id)| self.shared_model(&provider, &id));
        self.nodes.push(Node { id, parent, kind: line.kind, model, range });
        self.leaf = Some(index);
        whole
    }

    fn shared_model(&mut self, provider: &str, id: &str) -> Arc<(String, String)> {
        if let Some(last) = &self.last_model
            && last.0 == provider
            && last.1 == id
        {
            return Arc::clone(last);
        }
        let model = Arc::new((provider.to_owned(), id.to_owned()));
        self.last_model = Some(Arc::clone(&model));
        model
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.by_id.contains_key(id)
    }

    /// Id of the active position.
    pub(super) fn leaf_id(&self) -> Option<&str> {
        self.leaf.map(|leaf| &*self.nodes[leaf].id)
    }

    /// The active branch, root first.
    pub(super) fn branch(&self) -> Vec<&Node> {
        self.branch_to(self.leaf)
    }

    /// The path from the root to the entry `id`; empty if there is none.
    pub(super) fn branch_to_id(&self, id: &str) -> Vec<&Node> {
        self.branch_to(self.by_id.get(id).copied())
    }

    fn branch_to(&self, leaf: Option<usize>) -> Vec<&Node> {
        let mut branch = Vec::new();
        let mut next = leaf;
        // A parent always stands earlier in the file, so the walk ends.
        while let Some(index) = next {
            let node = &self.nodes[index];
            branch.push(node);
            next = node.parent;
        }
        branch.reverse();
        branch
    }
}

/// The entries of a branch that the model sees: the last compaction, what it kept, and what came after it.
pub(super) fn visible<'a>(branch: &[&'a Node]) -> Vec<&'a Node> {
    let Some(compacted) = branch.iter().rposition(|node| matches!(node.kind, LineKind::Compaction { .. })) else {
        return branch.iter().copied().filter(|node| speaks(node)).collect();
    };
    let LineKind::Compaction { first_kept } = &branch[compacted].kind else { return Vec::new() };
    let kept = branch[..compacted].iter().position(|node| *node.id == **first_kept).unwrap_or(compacted);
    let mut visible = vec![branch[compacted]];
    visible.extend(branch[kept..compacted].iter().chain(&branch[compacted + 1..]).copied().filter(|node| speaks(node)));
    visible
}

/// True for entries that add a message to the context (the compaction itself is handled by [`visible`]).
fn speaks(node: &Node) -> bool {
    matches!(node.kind, LineKind::Message { .. } | LineKind::CustomMessage | LineKind::BranchSummary { empty: false })
}

/// The model that the branch names last, and whether a person chose it.
pub(super) fn last_model(branch: &[&Node]) -> Option<(String, String, bool)> {
    branch.iter().rev().find_map(|node| match &node.kind {
        LineKind::ModelChange { provider, model_id } => Some((provider.clone(), model_id.clone(), true)),
        _ => node.model.as_ref().map(|model| (model.0.clone(), model.1.clone(), false)),
    })
}

/// The thinking level that the branch names last.
pub(super) fn last_level<'a>(branch: &[&'a Node]) -> Option<&'a str> {
    branch.iter().rev().find_map(|node| match &node.kind {
        LineKind::ThinkingLevelChange { level } => Some(level.as_str()),
        _ => None,
    })
}

/// True if the last message of the branch waits for an answer of the model: a run was cut off there.
pub(super) fn is_interrupted(branch: &[&Node]) -> bool {
    branch.iter().rev().find_map(|node| node.kind.awaits_model()).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::{Tree, is_interrupted, last_level, last_model, visible};
    use crate::session::line::parse_line;

    fn tree(lines: &[&str]) -> Tree {
        let mut tree = Tree::default();
        for (index, line) in lines.iter().enumerate() {
            tree.push(parse_line(line.as_bytes()).unwrap(), index as u64..index as u64 + 1);
        }
        tree
    }

    fn ids(nodes: &[&super::Node]) -> Vec<String> {
        nodes.iter().map(|node| node.id.to_string()).collect()
    }

    fn entry(kind: &str, id: &str, parent: &str, rest: &str) -> String {
        let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
        format!(r#"{{"type":"{kind}","id":"{id}","parentId":{parent},"timestamp":"t"{rest}}}"#)
    }

    #[test]
    fn a_leaf_entry_moves_the_branch() {
        let user = r#","message":{"role":"user"}"#;
        let lines = [
            entry("message", "a", "", user),
            entry("message", "b", "a", user),
            entry("leaf", "x", "b", r#","targetId":"a""#),
            entry("message", "c", "a", user),
        ];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(ids(&tree(&lines).branch()), ["a", "c"]);
        assert_eq!(ids(&tree(&lines[..3]).branch()), ["a"]);
    }

    #[test]
    fn a_lost_parent_hides_nothing() {
        let user = r#","message":{"role":"user"}"#;
        let lines = [entry("message", "a", "", user), entry("message", "c", "lost", user), entry("message", "d", "c", user)];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(ids(&tree(&lines).branch()), ["a", "c", "d"]);
    }

    #[test]
    fn a_compaction_keeps_its_tail() {
        let user = r#","message":{"role":"user"}"#;
        let lines = [
            entry("message", "a", "", user),
            entry("message", "b", "a", user),
            entry("compaction", "k", "b", r#","summary":"s","firstKeptEntryId":"b","tokensBefore":1"#),
            entry("message", "c", "k", user),
        ];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(ids(&visible(&tree(&lines).branch())), ["k", "b", "c"]);
        let gone = lines[2].replace(r#""firstKeptEntryId":"b""#, r#""firstKeptEntryId":"zzz""#);
        assert_eq!(ids(&visible(&tree(&[lines[0], lines[1], &gone, lines[3]]).branch())), ["k", "c"]);
    }

    #[test]
    fn model_level_and_interruption_come_from_the_branch() {
        let lines = [
            entry("model_change", "m", "", r#","provider":"p","modelId":"one""#),
            entry("thinking_level_change", "l", "m", r#","thinkingLevel":"high""#),
            entry("message", "u", "l", r#","message":{"role":"user"}"#),
            entry("message", "r", "u", r#","message":{"role":"assistant","provider":"q","model":"two","stopReason":"stop"}"#),
        ];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let whole = tree(&lines);
        assert_eq!(last_model(&whole.branch()), Some(("q".into(), "two".into(), false)));
        assert_eq!(last_level(&whole.branch()), Some("high"));
        assert!(!is_interrupted(&whole.branch()));
        let cut = tree(&lines[..3]);
        assert_eq!(last_model(&cut.branch()), Some(("p".into(), "one".into(), true)));
        assert!(is_interrupted(&cut.branch()));
    }
}
