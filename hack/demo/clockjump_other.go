//go:build !amd64

package main

import (
	"errors"
	"time"
)

// crooked is left out here: the instructions that make clocks jump are written for amd64.
type crooked struct{}

var errNoJump = errors.New("clocks can be made to jump on amd64 only")

func crook(int) (*crooked, error) { return nil, errNoJump }

func (*crooked) jumpWall(time.Duration) error { return errNoJump }

func (*crooked) jumpBoot(time.Duration) error { return errNoJump }
