// Package policy defines the permissions of callers by a file that operators write.
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
//   - grants allow: a call is allowed if any grant allows it. Nothing denies, so that their
//     order does not matter. The list is required: an empty one allows nothing;
//   - options set defaults and caps of requests, per caller and target;
//   - limits limit the load of each caller.
//
// The latter two are optional.
//
// In options and limits the order counts: of all rules that match, the first that says something
// about a setting decides that setting. Put the particular first.
//
// In patterns * matches any characters, or none, including / and :. A pattern with a * never
// matches Anonymous, whose name must be spelled out, so that a rule for all known callers does
// not admit unknown ones by mistake. A rule of options or limits without identities and groups
// applies to all callers, including Anonymous.
package policy
