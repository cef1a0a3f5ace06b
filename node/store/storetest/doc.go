// Package storetest says by tests what a store of the zone node does. Every implementation passes Run; what it checks is
// the contract of zone.StoreOp, word by word.
//
// May be imported by tests only.
package storetest
