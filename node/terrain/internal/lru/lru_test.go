package lru

import "testing"

func TestTheLeastRecentlyUsedGoesFirst(t *testing.T) {
	c := New[string, int](10)
	c.Put("a", 1, 4)
	c.Put("b", 2, 4)
	c.Get("a")
	c.Put("c", 3, 4)
	if _, ok := c.Get("b"); ok {
		t.Error("b stayed although a was used later")
	}
	if v, ok := c.Get("a"); !ok || v != 1 {
		t.Errorf("a is %d, %v", v, ok)
	}
	if c.Used() != 8 || c.Len() != 2 {
		t.Errorf("%d used by %d", c.Used(), c.Len())
	}
}

func TestCostsStayWithinTheLimit(t *testing.T) {
	c := New[int, int](100)
	for i := range 1000 {
		c.Put(i%37, i, 1+i%50)
		if c.Used() > 100 {
			t.Fatalf("%d used", c.Used())
		}
	}
	c.Put(1, 1, 101)
	if _, ok := c.Get(1); ok {
		t.Error("an entry above the limit was kept")
	}
}
