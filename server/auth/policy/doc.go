// Package policy says what callers may do, by a file that operators write.
//
//	file, err := policy.Open("policy.yaml", watched.Options{})
//	…
//	go file.Run(ctx)
//	…
//	grants := file.Load().For(identity)
//	if err := grants.Check(policy.Recommend, "prod", "shop"); err != nil { // PERMISSION_DENIED
//	options := grants.Options("prod", "shop", "web").Over(serverOptions)
//
// A file has three lists:
//
//   - grants allow: a call is allowed if any grant allows it. Nothing else denies, so
//     that their order is of no importance. The list must be there: an empty one allows
//     nothing;
//   - options set what callers leave open, and cap what they ask for, per caller and
//     target;
//   - limits bound how much each caller may ask for at a time.
//
// The latter two are optional.
//
// In options and limits the order counts: of all rules that match, the first that says
// something about a setting decides that setting. Put the particular first.
//
// In patterns * matches any characters, or none, including / and :. The name of Anonymous
// is matched by no pattern with a *, it has to be written out: a pattern for
// all callers must not include unknown ones by mistake. A rule of options or limits that
// names no identities and no groups is for all callers, Anonymous too.
package policy
