//! The six kinds of ALFWorld goals, recognised in PDDL and checked against a state.

use std::fmt;

use super::error::Fault;
use super::problem::{Condition, Problem, State};
use super::sexpr::{Node, Sexpr};

/// The official task types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskKind {
    /// Put an object in or on a receptacle.
    Place,
    /// Clean it first.
    CleanThenPlace,
    /// Heat it first.
    HeatThenPlace,
    /// Cool it first.
    CoolThenPlace,
    /// Put two of a kind into one receptacle.
    PlaceTwo,
    /// Hold an object under a lit lamp.
    LookInLight,
}

impl TaskKind {
    /// All task types.
    pub const ALL: [Self; 6] = [
        Self::Place,
        Self::CleanThenPlace,
        Self::HeatThenPlace,
        Self::CoolThenPlace,
        Self::PlaceTwo,
        Self::LookInLight,
    ];

    /// The name ALFWorld uses in its folders.
    #[must_use]
    pub fn official_name(self) -> &'static str {
        match self {
            Self::Place => "pick_and_place_simple",
            Self::CleanThenPlace => "pick_clean_then_place_in_recep",
            Self::HeatThenPlace => "pick_heat_then_place_in_recep",
            Self::CoolThenPlace => "pick_cool_then_place_in_recep",
            Self::PlaceTwo => "pick_two_obj_and_place",
            Self::LookInLight => "look_at_obj_in_light",
        }
    }

    /// The goal formula of this type; `$object` and `$target` stand for the names of types.
    fn pattern(self) -> &'static str {
        match self {
            Self::Place => {
                "(and (exists (?r - receptacle) (exists (?o - object)
                    (and (inreceptacle ?o ?r) (objecttype ?o $object) (receptacletype ?r $target)))))"
            }
            Self::CleanThenPlace => {
                "(and (exists (?r - receptacle) (exists (?o - object) (and (cleanable ?o)
                    (objecttype ?o $object) (receptacletype ?r $target) (isclean ?o) (inreceptacle ?o ?r)))))"
            }
            Self::HeatThenPlace => {
                "(and (exists (?r - receptacle) (exists (?o - object) (and (heatable ?o)
                    (objecttype ?o $object) (receptacletype ?r $target) (ishot ?o) (inreceptacle ?o ?r)))))"
            }
            Self::CoolThenPlace => {
                "(and (exists (?r - receptacle) (exists (?o - object) (and (coolable ?o)
                    (objecttype ?o $object) (receptacletype ?r $target) (iscool ?o) (inreceptacle ?o ?r)))))"
            }
            Self::PlaceTwo => {
                "(and (exists (?r - receptacle) (exists (?o1 - object)
                    (and (objecttype ?o1 $object) (receptacletype ?r $target) (inreceptacle ?o1 ?r)
                        (exists (?o2 - object) (and (not (= ?o1 ?o2)) (objecttype ?o2 $object)
                            (receptacletype ?r $target) (inreceptacle ?o2 ?r)))))))"
            }
            Self::LookInLight => {
                "(and (exists (?ot - object ?r - receptacle ?a - agent ?l - location)
                        (and (objecttype ?ot $target) (toggleable ?ot) (istoggled ?ot)
                            (receptacleatlocation ?r ?l) (atlocation ?a ?l) (inreceptacle ?ot ?r)))
                    (exists (?o - object ?a - agent) (and (objecttype ?o $object) (holds ?a ?o))))"
            }
        }
    }
}

impl fmt::Display for TaskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.official_name())
    }
}

/// A goal with its types as numbers of the problem.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    pub(super) kind: TaskKind,
    object: usize,
    /// A type of receptacles; of objects for the lamp of [`TaskKind::LookInLight`].
    target: usize,
}

impl Goal {
    pub(super) fn parse(formula: &Sexpr<'_>, problem: &Problem) -> Result<Self, Fault> {
        for kind in TaskKind::ALL {
            let mut holes = Holes::default();
            if !holes.fill(&Sexpr::parse(kind.pattern())?, formula) {
                continue;
            }
            let number = |hole: Option<(&str, usize)>, types: &[String]| {
                let (name, at) = hole.ok_or_else(|| Fault::new(formula.at, "the goal names no types"))?;
                let found = types.iter().position(|known| known == name);
                found.ok_or_else(|| Fault::new(at, format!("`{name}` is not a declared type of this sort")))
            };
            let is_lamp = kind == TaskKind::LookInLight;
            let targets = if is_lamp {
                &problem.object_types
            } else {
                &problem.receptacle_types
            };
            let (object, target) = (
                number(holes.object, &problem.object_types)?,
                number(holes.target, targets)?,
            );
            return Ok(Self { kind, object, target });
        }
        Err(Fault::new(formula.at, "the goal is none of ALFWorld's six kinds"))
    }

    /// Whether the state reaches the goal.
    pub(super) fn is_reached(self, problem: &Problem, state: &State) -> bool {
        let is_kind = |object: usize, kind: usize| problem.objects[object].kind == Some(kind);
        let traits = |object: usize| &problem.objects[object];
        let condition = |object: usize| -> Condition { state.condition[object] };
        if self.kind == TaskKind::LookInLight {
            let is_lit = |lamp: usize| {
                is_kind(lamp, self.target) && traits(lamp).is_toggleable && condition(lamp).is_toggled
            };
            return state.held.is_some_and(|held| is_kind(held, self.object))
                && problem
                    .receptacles
                    .iter()
                    .zip(&state.contents)
                    .any(|(receptacle, contents)| {
                        receptacle.location == Some(state.location)
                            && contents.iter().any(|&lamp| is_lit(lamp))
                    });
        }
        let counts = |&&object: &&usize| {
            is_kind(object, self.object)
                && match self.kind {
                    TaskKind::CleanThenPlace => traits(object).is_cleanable && condition(object).is_clean,
                    TaskKind::HeatThenPlace => traits(object).is_heatable && condition(object).is_hot,
                    TaskKind::CoolThenPlace => traits(object).is_coolable && condition(object).is_cool,
                    TaskKind::Place | TaskKind::PlaceTwo | TaskKind::LookInLight => true,
                }
        };
        let wanted = if self.kind == TaskKind::PlaceTwo { 2 } else { 1 };
        problem
            .receptacles
            .iter()
            .zip(&state.contents)
            .any(|(receptacle, contents)| {
                receptacle.kind == Some(self.target)
                    && contents.iter().filter(counts).take(wanted).count() == wanted
            })
    }
}

/// The types found where a pattern has `$object` and `$target`, with their places.
#[derive(Default)]
struct Holes<'a> {
    object: Option<(&'a str, usize)>,
    target: Option<(&'a str, usize)>,
}

impl<'a> Holes<'a> {
    /// Lays the pattern over the formula; a hole that occurs twice must be the same both times.
    fn fill(&mut self, pattern: &Sexpr<'_>, formula: &Sexpr<'a>) -> bool {
        match (&pattern.node, &formula.node) {
            (Node::Symbol("$object"), Node::Symbol(name)) => fill_one(&mut self.object, name, formula.at),
            (Node::Symbol("$target"), Node::Symbol(name)) => fill_one(&mut self.target, name, formula.at),
            (Node::Symbol(wanted), Node::Symbol(name)) => wanted == name,
            (Node::List(wanted), Node::List(items)) => {
                wanted.len() == items.len()
                    && wanted
                        .iter()
                        .zip(items)
                        .all(|(wanted, item)| self.fill(wanted, item))
            }
            _ => false,
        }
    }
}

fn fill_one<'a>(hole: &mut Option<(&'a str, usize)>, name: &'a str, at: usize) -> bool {
    hole.get_or_insert((name, at)).0 == name
}
