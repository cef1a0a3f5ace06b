package ecs

import "testing"

func TestEpochsCompareRecoveriesBeforeTransfers(t *testing.T) {
	rising := []Epoch{{0, 0}, {0, 1}, {0, 9}, {1, 0}, {1, 1}, {2, 0}}
	for i, e := range rising {
		for j, o := range rising {
			if e.Less(o) != (i < j) {
				t.Errorf("%v less than %v: %v", e, o, e.Less(o))
			}
		}
	}
}

func TestEachChangeOfOwnerRaisesTheEpoch(t *testing.T) {
	e := Epoch{Recoveries: 3, Transfers: 7}
	if got := e.Transferred(2); got != (Epoch{3, 9}) || !e.Less(got) {
		t.Errorf("transferred: %v", got)
	}
	if got := e.Recovered(); got != (Epoch{4, 0}) || !e.Less(got) {
		t.Errorf("recovered: %v", got)
	}
}
