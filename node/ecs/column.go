package ecs

// column is a sparse set of entities: dense lists in the order of iteration, and per slot the place in them. A slot is an
// entity's small number in its world; going by it, a query looks nothing up in a map.
type column struct {
	world   *World
	ids     []EntityID // dense
	slots   []uint32   // dense, beside ids
	places  []int32    // per slot: place in the dense lists + 1, 0 if absent
	swapped func(hole, last int)
}

// at returns the place of the slot in the dense lists, -1 if it is not in the set.
func (c *column) at(slot uint32) int {
	if int(slot) >= len(c.places) {
		return -1
	}
	return int(c.places[slot]) - 1
}

func (c *column) has(slot uint32) bool {
	return int(slot) < len(c.places) && c.places[slot] != 0
}

// insert adds an absent slot and returns its place, the last.
func (c *column) insert(id EntityID, slot uint32) int {
	if need := int(slot) + 1; need > len(c.places) {
		c.places = append(c.places, make([]int32, need-len(c.places))...)
	}
	c.ids, c.slots = append(c.ids, id), append(c.slots, slot)
	c.places[slot] = int32(len(c.ids))
	return len(c.ids) - 1
}

// drop removes the slot, if it is there, by moving the last into its place.
func (c *column) drop(slot uint32) bool {
	hole := c.at(slot)
	if hole < 0 {
		return false
	}
	last := len(c.ids) - 1
	c.ids[hole], c.slots[hole] = c.ids[last], c.slots[last]
	c.places[c.slots[hole]] = int32(hole) + 1
	c.places[slot] = 0
	c.ids, c.slots = c.ids[:last], c.slots[:last]
	if c.swapped != nil {
		c.swapped(hole, last)
	}
	return true
}

// pageSize is the number of values that lie together. Pages never move, so pointers outlive additions.
const pageSize = 1 << pageBits

const pageBits = 7

type pages[T any] struct{ list []*[pageSize]T }

func (p *pages[T]) at(i int) *T { return &p.list[i>>pageBits][i&(pageSize-1)] }

// grow makes room for place i, at most one beyond the last.
func (p *pages[T]) grow(i int) {
	if i>>pageBits == len(p.list) {
		p.list = append(p.list, new([pageSize]T))
	}
}

// moveLast fills the hole with the last value and clears that, so that it holds on to nothing.
func (p *pages[T]) moveLast(hole, last int) {
	var zero T
	*p.at(hole) = *p.at(last)
	*p.at(last) = zero
}
