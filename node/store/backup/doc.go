// Package backup makes a file of a world that is in a store, and a store of such a file.
//
// The file is JSON lines in gzip, so that it can be read without this program:
//
//	{"world":{"format":"spatialcells-world","version":1,"storeID":"...","taken":"...","grid":{...}}}
//	{"key":"{e:7}","hash":["format","2","blob",{"base64":"..."}, ...]}
//	{"key":"{r:1,2}:fence","string":"5"}
//	{"key":"{t:...}","string":"1","expires":1760000000000}
//	{"end":{"lines":3,"records":1,"grounds":0,"accounts":0,"fences":1,"tokens":1,"sha256":"..."}}
//
// A hash has names and values in turn. What is no UTF-8 is in base64. A later line of a key takes the place of an earlier one;
// one with neither hash nor string says that the key is not there. The checksum is that of all bytes before the last line.
// Indexes are not in the file: they follow from the records, and so can never name too few. The file has the resume secrets
// of the players, so only its owner may read it.
//
// What a caller may rely on:
//   - Export is a point in time, also of a world that is running: all records and grounds are as of one instant, found as
//     package audit says. Directory, fences and tokens are read after it, so they are never behind. If no such instant is
//     found it fails with audit.ErrBusy, and leaves no file.
//   - Import looks at the whole file before it writes: format, checksum, bounds, each line, and the auditor's rules. It
//     takes a store with nothing in it but an id. When it was interrupted it is begun again with the same file, and goes on;
//     until it is through, a key says so, and any other import is refused. At last the auditor looks at the store.
//   - Nothing that an older life of the world still has in its hands is taken by the new one: each fence and the recoveries
//     of each record are one above the file's, and every write has to show them.
//   - What is read from a file is bounded: a line by MaxLine, all lines by MaxLines, each hash by what a store may have.
//
// May import store, audit, connect and what these do.
package backup
