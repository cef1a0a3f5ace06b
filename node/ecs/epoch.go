package ecs

// Epoch of an entity is raised by each change of its owner: a recovery from the store raises Recoveries and starts
// Transfers anew, a handoff raises Transfers. Of two copies the one with the higher epoch counts.
type Epoch struct {
	Recoveries, Transfers uint32
}

// Less orders epochs, recoveries first.
func (e Epoch) Less(o Epoch) bool {
	if e.Recoveries != o.Recoveries {
		return e.Recoveries < o.Recoveries
	}
	return e.Transfers < o.Transfers
}

// Transferred is the epoch after n more transfers.
func (e Epoch) Transferred(n uint32) Epoch { return Epoch{e.Recoveries, e.Transfers + n} }

// Recovered is the epoch after a recovery.
func (e Epoch) Recovered() Epoch { return Epoch{e.Recoveries + 1, 0} }
