package faults

import (
	"testing"

	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// The password of the service, and the user of those that are not everybody.
const (
	password = "first"
	user     = "app"
)

func TestRefusedAccessIsRefusedAndRecoversAlone(t *testing.T) {
	t.Parallel()
	asUser := func(su *setup) { su.redis.Username, su.redis.Password = user, password }
	limited := directives("user " + user + " on >" + password + " ~* &* +@all")
	for _, f := range []fault{
		{
			name: "the password is another, and connections are closed", clean: true,
			config: &redistest.Config{Password: password},
			begin: func(t *testing.T, r *rig) func() {
				r.do(t, "CONFIG", "SET", "requirepass", "second")
				r.do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				return func() { r.do(t, "CONFIG", "SET", "requirepass", password) }
			},
		},
		{
			name: "there is a password now, and connections are closed", clean: true, config: directives(),
			begin: func(t *testing.T, r *rig) func() {
				r.do(t, "CONFIG", "SET", "requirepass", "second")
				r.do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				return func() { r.do(t, "CONFIG", "SET", "requirepass", "") }
			},
		},
		{name: "the user is gone", clean: true, config: limited, change: asUser, begin: rights([]any{"off"}, []any{"on"})},
		{name: "the user has no rights", clean: true, config: limited, change: asUser, begin: rights([]any{"-@all"}, []any{"+@all"})},
		{name: "the user has no right to the keys", clean: true, config: limited, change: asUser, begin: rights([]any{"resetkeys", "~other:*"}, []any{"~*"})},
		{name: "the user may only read", clean: true, reads: true, config: limited, change: asUser, begin: rights([]any{"-@write"}, []any{"+@all"})},
		{
			name: "the user may not write within scripts", clean: true, reads: true, config: limited, change: asUser,
			begin: rights([]any{"-set", "-del"}, []any{"+@all"}),
		},
		{
			name: "the user may not run scripts", clean: true, reads: true, noScripts: true, config: limited, change: asUser,
			begin: rights([]any{"-eval", "-evalsha"}, []any{"+@all"}),
		},
	} {
		t.Run(f.name, f.run)
	}
}

// rights starts a fault in the permissions of the service's user.
func rights(bad, good []any) func(*testing.T, *rig) func() {
	return func(t *testing.T, r *rig) func() {
		r.do(t, append([]any{"ACL", "SETUSER", user}, bad...)...)
		if bad[0] == "off" { // which leaves existing connections alone
			r.do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}
		return func() { r.do(t, append([]any{"ACL", "SETUSER", user}, good...)...) }
	}
}
