//! Conversations that branch. A tree of messages becomes a transcript for each path from its root to
//! a leaf: the first is the conversation, each other one a branch of the one that it leaves.

use std::collections::{HashMap, HashSet, VecDeque};

use super::{Begins, Step, Transcript, json};

/// A node of a tree, with the steps it stands for.
pub(crate) struct Node {
    pub id: String,
    /// `None` of a root. A parent that is nowhere makes a root too.
    pub parent: Option<String>,
    /// Where it stands, as `file:line`.
    pub place: String,
    pub steps: Vec<Step>,
}

impl Node {
    /// Says first that what it answers is not there.
    fn cut_off(&mut self) {
        let Some(parent) = &self.parent else { return };
        let note = Step::Noted {
            what: "the message that this one answers is not in the file".to_owned(),
            place: self.place.clone(),
            content: Some(json::quoted(parent)),
            at: None,
            warn: true,
        };
        self.steps.insert(0, note);
    }
}

/// A path still to be told: the nodes before, and the one it goes on from.
struct Left {
    of: Option<String>,
    before: Vec<usize>,
    next: usize,
}

/// Tells the trees of these nodes. Siblings stand in order of preference; a path to `leaf` comes
/// before others. The first path is called `id` (or after its root where that is `None`), another
/// `id#node` by the first node of its own.
pub(crate) fn tell(
    format: &'static str,
    id: Option<&str>,
    mut nodes: Vec<Node>,
    leaf: Option<&str>,
) -> Vec<Transcript> {
    let links = Links::of(&nodes, leaf);
    for root in &links.roots {
        nodes.get_mut(*root).into_iter().for_each(Node::cut_off);
    }
    let tree = Tree {
        nodes: &nodes,
        links,
    };
    let mut told: Vec<Transcript> = Vec::new();
    let mut reached: HashSet<usize> = HashSet::new();
    let roots = tree.links.roots.iter().copied();
    // What only hangs on itself has no root: it begins with its first node.
    for root in roots.chain(0..nodes.len()) {
        if reached.contains(&root) {
            continue;
        }
        let mut left = VecDeque::from([Left {
            of: None,
            before: Vec::new(),
            next: root,
        }]);
        while let Some(path) = left.pop_front() {
            let own = nodes.get(path.next).map(|node| node.id.as_str());
            let named = match (id, told.is_empty()) {
                (Some(id), true) => id.to_owned(),
                (Some(id), false) => format!("{id}#{}", own.unwrap_or_default()),
                (None, _) => own.unwrap_or_default().to_owned(),
            };
            told.push(tree.path(format, named, path, &mut reached, &mut left));
        }
    }
    told
}

struct Tree<'a> {
    nodes: &'a [Node],
    links: Links,
}

struct Links {
    children: HashMap<usize, Vec<usize>>,
    roots: Vec<usize>,
    /// The nodes on the way to the leaf.
    preferred: HashSet<usize>,
}

impl Links {
    fn of(nodes: &[Node], leaf: Option<&str>) -> Self {
        let mut places: HashMap<&str, usize> = HashMap::new();
        for (at, node) in nodes.iter().enumerate() {
            places.entry(&node.id).or_insert(at);
        }
        let parent = |at: usize| {
            let parent = nodes.get(at)?.parent.as_deref()?;
            places.get(parent).copied().filter(|parent| *parent != at)
        };
        let mut children: HashMap<usize, Vec<usize>> = HashMap::new();
        let mut roots = Vec::new();
        for at in 0..nodes.len() {
            match parent(at) {
                Some(parent) => children.entry(parent).or_default().push(at),
                None => roots.push(at),
            }
        }
        let mut preferred = HashSet::new();
        let mut at = leaf.and_then(|leaf| places.get(leaf).copied());
        while let Some(node) = at.filter(|node| preferred.insert(*node)) {
            at = parent(node);
        }
        roots.sort_by_key(|root| !preferred.contains(root));
        Self {
            children,
            roots,
            preferred,
        }
    }
}

impl Tree<'_> {
    /// The path from a node on, with the paths that leave it.
    fn path(
        &self,
        format: &'static str,
        id: String,
        Left { of, before, next }: Left,
        reached: &mut HashSet<usize>,
        left: &mut VecDeque<Left>,
    ) -> Transcript {
        let steps_of = |nodes: &[usize]| -> Vec<Step> {
            let nodes = nodes.iter().filter_map(|at| self.nodes.get(*at));
            nodes.flat_map(|node| node.steps.iter().cloned()).collect()
        };
        let shared = steps_of(&before).len();
        let mut nodes = before;
        let mut at = Some(next);
        while let Some(node) = at.filter(|node| reached.insert(*node)) {
            nodes.push(node);
            let children = self
                .links
                .children
                .get(&node)
                .map_or(&[][..], Vec::as_slice);
            let to_leaf = children.iter().find(|c| self.links.preferred.contains(c));
            at = to_leaf.or_else(|| children.first()).copied();
            for other in children.iter().filter(|c| Some(**c) != at) {
                left.push_back(Left {
                    of: Some(id.clone()),
                    before: nodes.clone(),
                    next: *other,
                });
            }
        }
        let begins = of.map_or(Begins::Own, |of| Begins::Branch { of, shared });
        Transcript {
            format,
            id: Some(id),
            begins,
            steps: steps_of(&nodes),
        }
    }
}
