"""Compiled branch and bound over the feature boxes of boosted trees.

The kernels are all in this file, because numba renews a cached function when its own file changes,
but not when a function that it calls changes in another file. Each releases the interpreter's lock:
threads may share the trees. Divisors are never 0; numba's checks of them took a third of the time
that it compiles.

The trees read u = a + G t + e of one person: a is a point or, along directions that move one
feature alone, an interval [near, far] per feature; t is in a box, e in an ellipsoid of which every
coordinate's bounds [down, up] and a bound on the sum of squares are known. A *state* is a box of u
with what follows from it: the bounds of t, and for each feature the gap that e must fill at least.
Levels of a stack of states are rows of arrays.
"""

# numba infers the types of kernels from their arguments
# mypy: disable-error-code="misc, no-untyped-def"

from __future__ import annotations

from collections import namedtuple

import numba
import numpy as np

# Each kernel releases the interpreter's lock, is compiled once, and divides without a check for 0.
_njit = numba.njit(nogil=True, cache=True, error_model="numpy")
# Of kernels that only kernels call: a quarter of the time that numba compiles went into functions
# by which Python would call them.
_inner = numba.njit(
    nogil=True,
    cache=True,
    error_model="numpy",
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
)

# Relative slack of comparisons in float64, far above the rounding errors of the few operations
# before each.
SLACK = 1e-10
# Sums of products that are smaller prove nothing.
SMALLEST = 1e-100
# A point that is outside by less is brought back inside.
TOUCH = 1e-9
# Rounds of coordinate descent of the nearest point of a box.
ROUNDS = 12
# Primal-dual steps between two attempts to prove a state empty, and attempts: for a state that
# cannot be divided, and for others.
STEPS = 100
ATTEMPTS = 40
FEW_ATTEMPTS = 2
# Their length for delta and t; that for y is 1.
PRIMAL_STEP = 0.6
# Share of a feature's reach in e by which they aim inside a box.
INSET = 0.01


# Nodes of all trees; a split sends u left if it is at most `below`, right if at least `above`. Both
# are float32 numbers, `below` the one before `above`. A leaf has the feature -1. `most` is the
# largest value of a node's leaves.
TreeArrays = namedtuple(
    "TreeArrays",
    "roots feature left right rank cut_features below above cuts value most base depth",
)
# The region of one person, shapes (m,), for t (k,) and () for the last two; of n people (n, ...).
# `widest` is the longest move of each feature along one direction.
Person = namedtuple(
    "Person", "near far down up inset mixing t_low t_high widest spread radius limit"
)
# The moves (delta, t) of one person, or of n: x' = x + P delta + B t, u = own + rest delta + along
# t.
Moves = namedtuple("Moves", "x low high free_low free_high sigma basis reads rest along")
# A stack of states: boxes of u, shape (levels, m), of t, (levels, k), the ends of G t that follow,
# (levels, m), gaps, and their squares' sum.
States = namedtuple("States", "low high t_low t_high shift_low shift_high gap spent")


@_inner
def _leaf(trees, node, row):
    """The leaf below a node that a row reaches."""
    while trees.feature[node] >= 0:
        goes_left = row[trees.feature[node]] < trees.above[node]
        node = trees.left[node] if goes_left else trees.right[node]
    return node


@_njit
def tree_margins(trees, rows):
    """Margins of rows: the float32 sum of base and leaves in the order of the trees.

    Parameters
    ----------
    trees : TreeArrays
    rows : ndarray of float, shape (n, m)

    Returns
    -------
    ndarray of float32, shape (n,)
    """
    out = np.empty(len(rows), dtype=np.float32)
    for i in range(len(rows)):
        total = trees.base
        for root in trees.roots:
            total = np.float32(total + trees.value[_leaf(trees, root, rows[i])])
        out[i] = total
    return out


@_inner
def _copy(source, i, target, j):
    """Copy the state at level i of a stack to level j of another, or of the same."""
    for f in range(source.low.shape[1]):
        target.low[j, f] = source.low[i, f]
        target.high[j, f] = source.high[i, f]
        target.shift_low[j, f] = source.shift_low[i, f]
        target.shift_high[j, f] = source.shift_high[i, f]
        target.gap[j, f] = source.gap[i, f]
    for c in range(source.t_low.shape[1]):
        target.t_low[j, c] = source.t_low[i, c]
        target.t_high[j, c] = source.t_high[i, c]
    target.spent[j] = source.spent[i]


@_inner
def _shift(person, states, at, f):
    """Smallest and largest (G t)_f of a state."""
    low = high = 0.0
    for i in range(len(person.t_low)):
        g = person.mixing[f, i]
        if g > 0.0:
            low += g * states.t_low[at, i]
            high += g * states.t_high[at, i]
        elif g < 0.0:
            low += g * states.t_high[at, i]
            high += g * states.t_low[at, i]
    return low, high


@_inner
def _set_shifts(person, states, at):
    """Set the ends of G t of a state whose box of t is new."""
    for f in range(len(person.near)):
        low, high = _shift(person, states, at, f)
        states.shift_low[at, f] = low
        states.shift_high[at, f] = high


@_inner
def _range(person, states, at, f):
    """Smallest and largest u_f of a state."""
    return (
        max(states.low[at, f], person.near[f] + person.down[f] + states.shift_low[at, f]),
        min(states.high[at, f], person.far[f] + person.up[f] + states.shift_high[at, f]),
    )


@_inner
def _cut(person, states, at, f, low, high):
    """Narrow feature f of a state to [low, high]; False if no point of the region is left."""
    low = max(low, states.low[at, f])
    high = min(high, states.high[at, f])
    states.low[at, f] = low
    states.high[at, f] = high
    if low > high:
        return False
    least = low - person.far[f] - person.up[f]
    most = high - person.near[f] - person.down[f]
    shift_low = states.shift_low[at, f]
    shift_high = states.shift_high[at, f]
    if least > shift_high + SLACK * abs(least) or most < shift_low - SLACK * abs(most):
        return False
    # a direction that moves the feature less than this reaches both ends whatever the others do
    if person.widest[f] >= min(shift_high - least, most - shift_low):
        if not _narrow_directions(person, states, at, f, least, most):
            return False
        shift_low = states.shift_low[at, f]
        shift_high = states.shift_high[at, f]
    # what e must fill
    gap = max(0.0, low - person.far[f] - shift_high, person.near[f] + shift_low - high)
    if gap > states.gap[at, f]:
        states.spent[at] += gap * gap - states.gap[at, f] ** 2
        states.gap[at, f] = gap
    return states.spent[at] <= person.limit


@_inner
def _narrow_directions(person, states, at, f, least, most):
    """Narrow each t of a state, given the others, to where (G t)_f can be in [least, most]; False
    if nothing is left.
    """
    shift_low = states.shift_low[at, f]
    shift_high = states.shift_high[at, f]
    is_narrower = False
    for i in range(len(person.t_low)):
        g = person.mixing[f, i]
        if g == 0.0:
            continue
        ends = g * states.t_low[at, i], g * states.t_high[at, i]
        rest_low = shift_low - min(ends)
        rest_high = shift_high - max(ends)
        first = (least - rest_high) / g
        second = (most - rest_low) / g
        if g < 0.0:
            swapped = first
            first = second
            second = swapped
        slack = SLACK * (1.0 + abs(first) + abs(second)) / min(1.0, abs(g))
        first -= slack
        second += slack
        if first <= states.t_low[at, i] and second >= states.t_high[at, i]:
            continue
        states.t_low[at, i] = max(states.t_low[at, i], first)
        states.t_high[at, i] = min(states.t_high[at, i], second)
        if states.t_low[at, i] > states.t_high[at, i]:
            return False
        is_narrower = True
        shift_low, shift_high = _shift(person, states, at, f)
    if is_narrower:
        _set_shifts(person, states, at)
    return True


@_inner
def _child(trees, person, states, at, node, is_right):
    """Narrow a state to one side of a split; the child on that side, or -1 if no point is left."""
    f = trees.feature[node]
    if is_right:
        low = trees.above[node]
        high = np.inf
        child = trees.right[node]
    else:
        low = -np.inf
        high = trees.below[node]
        child = trees.left[node]
    if not _cut(person, states, at, f, low, high):
        return -1
    return child


@_inner
def _best_leaf(trees, person, states, root, open_node, open_level):
    """Leaf of the largest value that the state of level 0 can reach, or -1."""
    best = -np.inf
    best_node = -1
    top = 0  # splits whose second side is not walked yet
    node = root
    level = 0
    while True:
        while node >= 0 and trees.most[node] > best and trees.feature[node] >= 0:
            f = trees.feature[node]
            low, high = _range(person, states, level, f)
            if high < trees.above[node]:
                node = trees.left[node]
            elif low > trees.below[node]:
                node = trees.right[node]
            else:
                # both sides: the one with the larger leaf first
                left_first = trees.most[trees.left[node]] >= trees.most[trees.right[node]]
                # a negative number stands for the right side
                open_node[top] = -node - 1 if left_first else node
                open_level[top] = level
                top += 1
                _copy(states, level, states, level + 1)
                level += 1
                node = _child(trees, person, states, level, node, not left_first)
        if node >= 0 and trees.feature[node] < 0 and trees.value[node] > best:
            best = trees.value[node]
            best_node = node
        if top == 0:
            return best_node
        # the second side of the last split that is open
        top -= 1
        node = open_node[top]
        level = open_level[top]
        right_now = node < 0
        node = -node - 1 if right_now else node
        _copy(states, level, states, level + 1)
        level += 1
        node = _child(trees, person, states, level, node, right_now)


@_inner
def _bound(trees, person, states, leaves, open_node, open_level):
    """Upper bound of the margin over the state of level 0, and each tree's leaf; -inf for an empty
    state.
    """
    total = trees.base
    for tree in range(len(trees.roots)):
        leaf = _best_leaf(trees, person, states, trees.roots[tree], open_node, open_level)
        if leaf < 0:
            return np.float32(-np.inf)
        leaves[tree] = leaf
        total = np.float32(total + trees.value[leaf])
    return total


@_inner
def _nearest(person, states, at, t, missing):
    """The t of a state at which e must fill the least, by Newton steps in each coordinate.

    `missing` becomes the e needed. Returns whether the state is proved empty: for any vector g, e
    of the region has g'e <= r sqrt(g' M g), while a point of the state needs the sum below.
    """
    k = len(t)
    _descend_missing(person, states, at, t, missing)
    # g is the missing e itself: what a point of the state needs along g, less what t gives
    needed = scale = squared = 0.0
    for f in range(len(missing)):
        g = missing[f]
        if g == 0.0:
            continue
        end = states.low[at, f] - person.far[f] if g > 0.0 else states.high[at, f] - person.near[f]
        needed += g * end
        scale += abs(g * end)
        for h in range(len(missing)):
            if missing[h] != 0.0:
                squared += g * person.spread[f, h] * missing[h]
    for i in range(k):
        along = 0.0
        for f in range(len(missing)):
            along += person.mixing[f, i] * missing[f]
        worst = max(along * states.t_low[at, i], along * states.t_high[at, i])
        needed -= worst
        scale += abs(worst)
    # what e of the region has along g at most
    reach = person.radius * np.sqrt(max(squared, 0.0))
    return scale > SMALLEST and needed > reach * (1.0 + SLACK) + SLACK * scale


@_inner
def _descend_missing(person, states, at, t, missing):
    """Set t to the one at which e must fill the least, by coordinate descent, and `missing` to that
    e.
    """
    k = len(t)
    shift = np.empty(len(missing))
    for i in range(k):
        t[i] = min(max(0.0, states.t_low[at, i]), states.t_high[at, i])
    for _ in range(ROUNDS):
        moved = 0.0
        _set_missing(person, states, at, t, shift, missing)
        for i in range(k):
            # a Newton step of half the squared missing e, in one coordinate
            slope = curve = 0.0
            for f in range(len(missing)):
                if missing[f] != 0.0:
                    slope += person.mixing[f, i] * missing[f]
                    curve += person.mixing[f, i] ** 2
            if curve > 0.0:
                target = min(max(t[i] + slope / curve, states.t_low[at, i]), states.t_high[at, i])
                change = target - t[i]
                moved = max(moved, abs(change))
                t[i] = target
                if k > 1 and change != 0.0:
                    for f in range(len(missing)):
                        shift[f] += person.mixing[f, i] * change
                        missing[f] = _missing(person, states, at, f, shift[f])
        if moved <= 1e-12:
            break
    # without the rounding of the sums of changes
    _set_missing(person, states, at, t, shift, missing)


@_inner
def _set_missing(person, states, at, t, shift, missing):
    """Set `shift` to G t, and `missing` to the e that leads from a + G t into the box of a
    state.
    """
    for f in range(len(missing)):
        total = 0.0
        for i in range(len(t)):
            total += person.mixing[f, i] * t[i]
        shift[f] = total
        missing[f] = _missing(person, states, at, f, total)


@_inner
def _missing(person, states, at, f, shift):
    """What e must fill of feature f where (G t)_f is `shift`."""
    below = states.low[at, f] - person.far[f] - shift
    above = person.near[f] + shift - states.high[at, f]
    return max(0.0, below) - max(0.0, above)


@_inner
def _realise(person, moves, states, at, own, attempts, point, row):
    r"""Search the region's point of a state, by the primal-dual steps of Condat and Vu (2013).

    They minimise :math:`\delta^\top \Sigma \delta / 2` over the boxes of delta and t where u is in
    the state's box, of which y are the multipliers. `point` becomes x' and `row` what the trees
    read of it, both rounded to float32. Returns whether y proves that the state is empty, see
    :func:`_separates`.
    """
    d = len(moves.x)
    k = len(moves.free_low)
    m = len(own)
    delta = np.zeros(d)
    t = np.zeros(k)
    y = np.zeros(m)
    low = np.empty(m)
    high = np.empty(m)
    u = own.copy()
    weighed = np.zeros(d)
    inside = False
    length = 0.0
    empty = False
    for step in range(attempts * STEPS):
        if step % STEPS == 0:
            empty = step > 0 and _separates(
                person, moves, states, at, own, y, weighed, np.sqrt(length)
            )
            if empty:
                break
            _aim(person, states, at, step == 0, low, high)
        _primal_step(moves, y, weighed, delta, t)
        inside = _dual_step(person, moves, states, at, own, delta, t, low, high, y, u)
        # the squared fair length of delta, and its gradient's half
        weighed[:] = np.dot(moves.sigma, delta)
        length = max(np.dot(delta, weighed), 0.0)  # rounding
        if inside and length <= (person.radius + TOUCH) ** 2:
            break
    # a move that is too long is shortened: the region contains all points between x and its points
    length = np.sqrt(length)
    share = 1.0
    if length > person.radius:
        share = person.radius / length * (1.0 - SLACK)
    _apply_moves(moves, share, delta, t, point, row)
    return empty


@_inner
def _aim(person, states, at, is_first, low, high):
    """Set the box of u, [low, high], that the steps lead into.

    They aim inside the state's box; if that is too far, only far enough that rounding leads to no
    other one.
    """
    for f in range(len(low)):
        inner = 2.0 * person.inset[f]
        reach = max(person.up[f], -person.down[f])
        if is_first and np.isfinite(reach):
            inner += INSET * reach
        inner = min(inner, max(0.0, (states.high[at, f] - states.low[at, f]) / 4.0))
        low[f] = states.low[at, f] + inner
        high[f] = states.high[at, f] - inner


@_inner
def _primal_step(moves, y, weighed, delta, t):
    """Move delta and t against the gradient of the Lagrangian, within their boxes."""
    pull = weighed + np.dot(y, moves.rest)
    for j in range(len(delta)):
        delta[j] = min(max(delta[j] - PRIMAL_STEP * pull[j], moves.low[j]), moves.high[j])
    pull = np.dot(y, moves.along)
    for c in range(len(t)):
        t[c] = min(max(t[c] - PRIMAL_STEP * pull[c], moves.free_low[c]), moves.free_high[c])


@_inner
def _dual_step(person, moves, states, at, own, delta, t, low, high, y, u):
    """Move the multipliers y by the extrapolated u; whether the new u is in the state's box."""
    inside = True
    moved = own + np.dot(moves.rest, delta) + np.dot(moves.along, t)
    for f in range(len(y)):
        now = moved[f]
        inside &= states.low[at, f] + person.inset[f] <= now <= states.high[at, f] - person.inset[f]
        ahead = y[f] + 2.0 * now - u[f]
        y[f] = ahead - min(max(ahead, low[f]), high[f])
        u[f] = now
    return inside


@_inner
def _apply_moves(moves, share, delta, t, point, row):
    """Set `point` to x + share P delta + B t and `row` to what the trees read, in float32; t
    changes.
    """
    for c in range(len(t)):
        for j in range(len(delta)):
            t[c] -= share * moves.basis[j, c] * delta[j]
    for j in range(len(delta)):
        moved = share * delta[j]
        for c in range(len(t)):
            moved += moves.basis[j, c] * t[c]
        point[j] = np.float64(np.float32(moves.x[j] + moved))
    for f in range(len(row)):
        read = 0.0
        for j in range(len(delta)):
            read += moves.reads[f, j] * point[j]
        row[f] = np.float64(np.float32(read))


@_njit
def _separates(person, moves, states, at, own, y, weighed, length):
    r"""Whether g'u, g = -y, is larger in the whole box of a state than anywhere in the region.

    With c = rest' g, which is orthogonal to B, and :math:`h = c - \lambda \Sigma \delta`, for any
    :math:`\lambda \ge 0` and :math:`\delta` the region has

    .. math::
        c^\top \delta' \le \lambda r \sqrt{\delta^\top \Sigma \delta}
        + \sum_j \max(h_j l_j, h_j u_j)
    """
    d = len(weighed)
    m = len(own)
    # the smallest g'u of the box, less the largest part of t
    needed = scale = 0.0
    for f in range(m):
        if y[f] != 0.0:
            end = states.low[at, f] if y[f] < 0.0 else states.high[at, f]
            needed -= y[f] * (end - own[f]) + abs(y[f]) * person.inset[f]
            scale += abs(y[f]) * (abs(end) + abs(own[f]))
    for c in range(len(moves.free_low)):
        pull = 0.0
        for f in range(m):
            pull -= y[f] * moves.along[f, c]
        low = pull * moves.free_low[c]
        high = pull * moves.free_high[c]
        needed -= max(low, high)
        scale += abs(low) + abs(high)
    # c = rest' g
    towards = np.zeros(d)
    steepest = heaviest = 0.0
    for j in range(d):
        for f in range(m):
            towards[j] -= y[f] * moves.rest[f, j]
        scale += abs(towards[j]) * max(-moves.low[j], moves.high[j])
        steepest = max(steepest, abs(towards[j]))
        heaviest = max(heaviest, abs(weighed[j]))
    # the bound is convex in lambda: ternary search
    first = 0.0
    last = 2.0 * steepest / max(heaviest, 1e-300)
    best = np.inf
    for _ in range(40):
        third = (last - first) / 3.0
        left_bound = _reach(moves, towards, weighed, first + third, person.radius * length)
        right_bound = _reach(moves, towards, weighed, last - third, person.radius * length)
        best = min(best, left_bound, right_bound)
        if left_bound < right_bound:
            last -= third
        else:
            first += third
    # relative errors are bounded while no product underflows
    return scale > SMALLEST and needed > best + SLACK * scale


@_inner
def _reach(moves, towards, weighed, multiplier, round_part):
    """The bound of :func:`_separates` at one multiplier lambda."""
    total = multiplier * round_part
    for j in range(len(towards)):
        h = towards[j] - multiplier * weighed[j]
        total += max(h * moves.low[j], h * moves.high[j])
    return total


@_inner
def _common_box(trees, person, states, at, leaves, order):
    """Narrow a state to the boxes of as many of the leaves as fit together; how many do."""
    fitting = 0
    for tree in order:
        _copy(states, at, states, at + 1)
        node = trees.roots[tree]
        while 0 <= node != leaves[tree]:
            # nodes are numbered in the order of a depth-first walk: a right subtree follows its
            # left one
            node = _child(trees, person, states, at + 1, node, leaves[tree] >= trees.right[node])
        if node >= 0:
            _copy(states, at + 1, states, at)
            fitting += 1
    return fitting


@_inner
def _sort(weights, order):
    """Sort positions by falling weight, by insertion: the order of the last state is nearly
    right.
    """
    for i in range(1, len(order)):
        item = order[i]
        j = i
        while j > 0 and weights[order[j - 1]] < weights[item]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = item


@_inner
def _choose_split(trees, person, states, leaves, weights, above, below):
    """The threshold on which the trees' best leaves disagree most, as a node of it; -1 if none is
    open.

    Below a threshold the trees lose whose leaf needs a larger value, and above it the others: the
    smaller of the two losses counts, and by a thousandth the larger one. The loss of a tree is its
    weight.
    """
    _add_votes(trees, person, states, leaves, weights, above, below)
    # each feature's thresholds in rising order: two running sums of losses
    best = 0.0
    chosen = -1
    first = 0
    while first < len(trees.cuts):
        last = first
        lost_above = 0.0
        lost_below = 0.0
        while last < len(trees.cuts) and trees.cut_features[last] == trees.cut_features[first]:
            lost_below += above[last]
            last += 1
        for rank in range(first, last):
            lost_above += below[rank]
            if above[rank] > 0.0 or below[rank] > 0.0:
                score = min(lost_above, lost_below) + 1e-3 * max(lost_above, lost_below)
                if score > best:
                    best = score
                    chosen = rank
            lost_below -= above[rank]
        first = last
    return chosen


@_inner
def _add_votes(trees, person, states, leaves, weights, above, below):
    """Weight of the trees whose best leaf is above, or below, each threshold that a state leaves
    open.
    """
    above[:] = 0.0
    below[:] = 0.0
    for tree in range(len(trees.roots)):
        node = trees.roots[tree]
        while node != leaves[tree]:
            f = trees.feature[node]
            goes_left = leaves[tree] < trees.right[node]
            low, high = _range(person, states, np.int64(0), f)
            if low <= trees.below[node] and high >= trees.above[node]:
                if goes_left:
                    below[trees.rank[node]] += weights[tree]
                else:
                    above[trees.rank[node]] += weights[tree]
            node = trees.left[node] if goes_left else trees.right[node]


@_inner
def search(trees, person, moves, own, most_nodes, found_point):
    """Best-first branch and bound of one person's largest margin.

    Parameters
    ----------
    trees : TreeArrays
    person : Person
        Region of the person.
    moves : Moves
    own : ndarray of float, shape (m,)
        The features u of the person.
    most_nodes : int
        States that are looked at, at most.
    found_point : ndarray of float, shape (d,)
        Becomes the point found.

    Returns
    -------
    float
        The largest margin found.
    float
        The upper bound proved.
    bool
        Whether more states would change neither.
    """
    m = len(own)
    k = len(person.t_low)
    count = len(trees.roots)
    levels = trees.depth + 3
    work = _states(levels, m, k)
    heap = _states(most_nodes + 1, m, k)
    bounds = np.empty(most_nodes + 1, dtype=np.float32)
    splits = np.empty(most_nodes + 1, dtype=np.int64)
    open_node = np.empty(levels, dtype=np.int64)
    open_level = np.empty(levels, dtype=np.int64)
    leaves = np.empty(count, dtype=np.int64)
    weights = np.empty(count)
    order = np.arange(count)
    above = np.empty(len(trees.cuts))
    below = np.empty(len(trees.cuts))
    t = np.zeros(k)
    missing = np.zeros(m)
    row = np.empty((1, m))
    row[0] = own
    own_leaves = np.empty(count, dtype=np.int64)
    for tree in range(count):
        own_leaves[tree] = _leaf(trees, trees.roots[tree], own)
    largest_found = tree_margins(trees, row)[0]
    closed = largest_found  # the largest bound of a state that cannot be divided
    found_point[:] = moves.x
    point = np.empty(len(moves.x))
    # the whole region
    work.low[0] = -np.inf
    work.high[0] = np.inf
    work.t_low[0] = person.t_low
    work.t_high[0] = person.t_high
    _set_shifts(person, work, 0)
    work.gap[0] = 0.0
    work.spent[0] = 0.0
    size = 0
    looked = 0
    parent = np.float32(np.inf)
    # the next child to look at of the state that was divided; 2 if both were
    cut_rank = -1
    side = 2
    # positions in `work` as numbers of one type: for literals numba compiles what they are passed
    # to again
    first = np.int64(0)
    second = np.int64(1)
    while True:
        # look at the state in work[0], a child of the last one
        bound = _bound(trees, person, work, leaves, open_node, open_level)
        bound = min(bound, parent)
        looked += 1
        if bound > largest_found and not _nearest(person, work, first, t, missing):
            for tree in range(count):
                gain = trees.value[leaves[tree]] - trees.value[own_leaves[tree]]
                weights[tree] = max(np.float64(gain), 0.0) + 1e-9
            _sort(weights, order)
            _copy(work, first, work, second)
            _common_box(trees, person, work, second, leaves, order)
            chosen = _choose_split(trees, person, work, leaves, weights, above, below)
            attempts = ATTEMPTS if chosen < 0 else FEW_ATTEMPTS
            empty = _realise(person, moves, work, second, own, attempts, point, row[0])
            value = tree_margins(trees, row)[0]
            if value > largest_found:
                largest_found = value
                found_point[:] = point
            if chosen >= 0 and size < most_nodes:
                _copy(work, first, heap, size)
                bounds[size] = bound
                splits[size] = chosen
                size += 1
            elif chosen >= 0 or not empty:
                # all of the state has these leaves, if it is not empty
                closed = max(closed, bound)
        # the other child, or the first one of the open state of the largest bound
        while True:
            if side == 2:
                slot = _best_open(bounds, size, largest_found)
                if slot < 0:
                    return largest_found, max(closed, largest_found), True
                if looked >= most_nodes:
                    return largest_found, max(closed, bounds[slot]), False
                side = 0
                parent = bounds[slot]
                cut_rank = splits[slot]
                _copy(heap, slot, heap, most_nodes)
                size -= 1
                if slot < size:
                    _copy(heap, size, heap, slot)
                    bounds[slot] = bounds[size]
                    splits[slot] = splits[size]
            low = trees.cuts[cut_rank]
            high = np.inf
            if side == 0:
                high = np.float64(np.nextafter(np.float32(low), np.float32(-np.inf)))
                low = -np.inf
            side += 1
            _copy(heap, most_nodes, work, first)
            if _cut(person, work, first, trees.cut_features[cut_rank], low, high):
                break


@_inner
def _best_open(bounds, size, found):
    """Position of the largest of the first `size` bounds, if it is above what is found, else -1."""
    slot = -1
    for i in range(size):
        if bounds[i] > found and (slot < 0 or bounds[i] > bounds[slot]):
            slot = i
    return slot


@_inner
def _states(levels, m, k):
    """A stack of empty states."""
    box = (levels, m)
    free = (levels, k)
    return States(
        np.empty(box),
        np.empty(box),
        np.empty(free),
        np.empty(free),
        np.empty(box),
        np.empty(box),
        np.zeros(box),
        np.zeros(levels),
    )


@_njit
def search_all(trees, people, moves, own, most_nodes):
    """:func:`search` for people whose arrays have a leading axis n.

    Parameters
    ----------
    trees : TreeArrays
    people : Person
    moves : Moves
    own : ndarray of float, shape (n, m)
    most_nodes : int
        States that are looked at by person, at most.

    Returns
    -------
    ndarray of float32, shape (n,)
        The largest margins found.
    ndarray of float32, shape (n,)
        The upper bounds proved.
    ndarray of bool, shape (n,)
        Whether more states would change neither.
    ndarray of float, shape (n, d)
        The points found.
    """
    largest_found = np.empty(len(own), dtype=np.float32)
    proved = np.empty(len(own), dtype=np.float32)
    done = np.empty(len(own), dtype=np.bool_)
    points = np.empty(moves.x.shape)
    for i in range(len(own)):
        person = Person(
            near=people.near[i],
            far=people.far[i],
            down=people.down[i],
            up=people.up[i],
            inset=people.inset[i],
            mixing=people.mixing,
            t_low=people.t_low[i],
            t_high=people.t_high[i],
            widest=people.widest[i],
            spread=people.spread,
            radius=people.radius[i],
            limit=people.limit[i],
        )
        own_moves = Moves(
            x=moves.x[i],
            low=moves.low[i],
            high=moves.high[i],
            free_low=moves.free_low[i],
            free_high=moves.free_high[i],
            sigma=moves.sigma,
            basis=moves.basis,
            reads=moves.reads,
            rest=moves.rest,
            along=moves.along,
        )
        largest_found[i], proved[i], done[i] = search(
            trees, person, own_moves, own[i], most_nodes, points[i]
        )
    return largest_found, proved, done, points
