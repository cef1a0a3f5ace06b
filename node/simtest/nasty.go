package simtest

import "errors"

func (c *Cluster) buildNasty() error { return errors.New("not yet") }
