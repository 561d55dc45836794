package redis

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// What the server's user may do is tried out by Ping, on keys that no target has: Redis has a command that tells
// (ACL DRYRUN), but since 7.0 only, and only for administrators.

// lackError means that the server's user lacks rights. It is a reply of Redis.
type lackError struct {
	text string
	// commands are the commands that it may not run, and keys is the pattern of keys that it may not read and write.
	// Either may be empty.
	commands []string
	keys     string
	user     string
}

// Error implements error, RedisError goredis.Error.
func (e *lackError) Error() string {
	if e.Lacks() == "" {
		return e.text
	}
	return e.text + "; on each node, and in what it reads when it starts: ACL SETUSER " + e.user + " " + strings.Join(e.rights(e.keys), " ")
}

func (*lackError) RedisError() {}

// Lacks are the rights as an ACL has them, without the names of keys.
func (e *lackError) Lacks() string { return strings.Join(e.rights("its keys"), " ") }

func (e *lackError) rights(keys string) (all []string) {
	if e.keys != "" {
		all = append(all, keys)
	}
	for _, command := range e.commands {
		all = append(all, "+"+command)
	}
	return all
}

// refusedCommand finds the command in Redis' refusals of 6.2, 7.0 and 7.2.
var refusedCommand = regexp.MustCompile(`to run the '([a-z|]+)' command`)

// explained makes a lackError of a reply by which the server refuses a command for want of a right, and says what the URL lacks
// where a node of a Cluster is taken for a single server.
func (s *Store) explained(err error) error {
	var reply goredis.Error
	if errors.As(err, &reply) && strings.HasPrefix(reply.Error(), "MOVED ") && !s.options.Cluster {
		return fmt.Errorf("a node of a Cluster, and the URL is of a single server: add ?cluster=true to it: %w", err)
	}
	if known := new(lackError); errors.As(err, &known) || !errors.As(err, &reply) || !lacksRight(reply.Error()) {
		return err
	}
	e := &lackError{text: reply.Error(), user: s.user()}
	switch found := refusedCommand.FindStringSubmatch(e.text); {
	case found != nil:
		e.commands = found[1:]
	case strings.Contains(e.text, " key"):
		e.keys = "~" + s.options.KeyPrefix + "*"
	}
	return e
}

// lacks is the error for commands that the user may not run, by pingScript's reply; nil: there are none.
func (s *Store) lacks(reply any) error {
	refused, _ := reply.([]any)
	if len(refused) == 0 {
		return nil
	}
	e := &lackError{text: "NOPERM this user has no permissions to run commands that records need", user: s.user()}
	for _, command := range refused {
		text, _ := command.(string)
		e.commands = append(e.commands, strings.ToLower(text))
	}
	return e
}

func (s *Store) user() string { return cmp.Or(s.options.Username, "default") }

// lacksRight reports whether a reply means that the ACL forbids a command, or one of a script: Redis 6, 7.0 and 7.2
// have words of their own for that.
func lacksRight(text string) bool {
	return strings.HasPrefix(text, "NOPERM ") || strings.Contains(text, "-NOPERM ") ||
		strings.Contains(text, "The user executing the script") || strings.Contains(text, "ACL failure in script")
}

// pingKeys are the keys of pingScript in a bucket: all kinds that targets have. The server runs the script only for a user
// that may read and write each of them.
func (l *layout) pingKeys(bucket int) []string {
	keys := []string{l.bases[bucket] + "p"}
	for _, part := range slices.Sorted(maps.Values(partLetters)) { // histories first
		p := place{base: l.bases[bucket] + part} // no target has an empty name
		keys = append(keys, p.record(), p.index(), p.log(), p.kept(), p.deletion())
	}
	return keys
}
