// Package audit proves that a store has each item once, and everything else as README.md of package store says.
//
// The rule for items: a serial is at one place. Places are the items of records, those on grounds, and the out entries
// that their target does not remember as taken in. Over all holders, what was made less what has ended is the number of
// serials.
//
// How a store is looked at while nodes write to it. Reading holder after holder gives no state that the store ever had: an
// item may be met twice, or not at all, while it moves. So Read does this:
//
//  1. It reads all holders, each with its stamp, which every write to its contents changes. They are called quiet.
//  2. It reads the names and stamps of all holders again. Those that changed, came or went since are no longer quiet.
//  3. If there were any, it reads all that are not quiet in one transaction, and goes on with 2.
//
// It ends when step 2 finds nothing. The quiet ones had then not changed from step 1 until after the last transaction,
// so what was read is what the store had at the instant of that transaction: a snapshot, and what is wrong in it was
// wrong. A world that is not written to is read once, and its stamps once more. In one that is, the holders that are not
// quiet come to be those in use, and the rest stays quiet. If it does not end within the passes that were allowed, or what
// is in use is too large for a transaction, the answer is ErrBusy, never a guess.
//
// Records, indexes and accounts are related by rules of their own, which hold at every instant: what seems to break one is
// looked at again in one transaction.
//
// Bounds: a batch of Options.Batch holders is in memory with its blobs (64 holders of at most 1.5 MiB, a ground has 4 MiB), of
// the rest about 250 bytes per holder, 24 per item and 64 per open or remembered movement, and each key's name; a transaction
// has at most 64 MiB. 100 000 records with 2 million items take 200 MiB and 5 s on two cores. Nothing is written.
//
// May import store, connect and what these do.
package audit
