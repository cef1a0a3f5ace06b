// Package window tells when planned disruptions may start.
//
// It is pure: the time is given to it, nothing is read or written, and the same [Calendar] gives the same answer on every
// machine, for the time zone database is built in.
//
// What it promises:
//   - Without windows everything may start at any time but in the exclusions. Windows that overlap or touch are one. An
//     exclusion wins over every window, an override over everything while it lasts.
//   - Something starts only when its estimate fits what is left of the opening, unless an override lifts that.
//   - A closed answer says from when the thing will be allowed, by the same rules: at that instant [Calendar.At] is open.
//   - A window opens by the clock on the wall of its zone, once for each time that its cron expression names: at the first
//     instant at which that clock shows this time or a later one. So a time that the clocks skip in spring opens it right
//     after the gap, and one that comes twice in autumn opens it the first time only. How long it stays open is counted in
//     seconds that pass.
//   - What cannot be read is refused by [Parse] in words for whoever wrote it: nothing confined may start then, unless an
//     override lifts the windows, readable or not. An override says by itself what it allows and until when, so nothing has
//     to be guessed; what is not confined never waits.
//
// It may import api/v1alpha1, the cron library and the standard library.
package window
