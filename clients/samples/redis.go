package samples

import (
	"context"
	"errors"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/setpoint-dev/setpoint/internal/files"
)

// Redis is one server, a Cluster, or a master that sentinels watch.
type Redis struct {
	// Addresses are host:port: of the server, of nodes of the Cluster, or of the
	// sentinels. Required.
	Addresses []string `json:"addresses"`
	// Cluster reports whether the addresses are of a Redis Cluster. Default: one server.
	Cluster bool `json:"cluster,omitempty"`
	// Master is the name of the master that the sentinels at the addresses watch. Default:
	// the addresses are not of sentinels.
	Master string `json:"master,omitempty"`
	// Database is the number of the database; a Cluster has 0 only. Default: 0.
	Database int `json:"database,omitempty"`
	// Username is that of the server's ACL. Default: the server's default user.
	Username string `json:"username,omitempty"`
	// PasswordFile holds the password; read at each connection. Default: none is sent.
	PasswordFile string `json:"passwordFile,omitempty"`
	// InsecureCredentials lets the password travel without TLS. Default: a source with a
	// password needs tls.
	InsecureCredentials bool `json:"insecureCredentials,omitempty"`
	// TLS asks for TLS, also to sentinels; {} trusts the system's authorities. Default:
	// in the clear.
	TLS *TLS `json:"tls,omitempty"`
}

func (r *Redis) problems() problems {
	var p problems
	if len(r.Addresses) == 0 {
		p.add("addresses", "is required, such as [redis:6379]")
	}
	for i, address := range r.Addresses {
		host, port, err := net.SplitHostPort(address)
		if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 1 || n > 65535 || host == "" || strings.ContainsAny(host, "@/") {
			// The error does not quote it: people write passwords there.
			p.add("addresses["+strconv.Itoa(i)+"]", "must be host:port such as redis:6379, without a scheme or a password")
		}
	}
	if r.Cluster && r.Master != "" {
		p.add("master", "and cluster exclude each other: a server is one or the other")
	}
	if !r.Cluster && r.Master == "" && len(r.Addresses) > 1 {
		p.add("addresses", "are several: say cluster: true, or whose master sentinels watch")
	}
	if r.Database < 0 || r.Cluster && r.Database != 0 {
		p.add("database", "must be 0 or above, and 0 for a cluster")
	}
	if r.Username != "" && r.PasswordFile == "" {
		p.add("passwordFile", "is required with username")
	}
	if r.PasswordFile != "" && r.TLS == nil && !r.InsecureCredentials {
		p.add("tls", "is not set, and the password would travel in the clear: set it ({} for the system's authorities), or insecureCredentials")
	}
	if r.TLS != nil {
		p.under("tls", r.TLS.problems())
	}
	return p
}

// redisServer reads lengths. It implements backend.
type redisServer struct{ client goredis.UniversalClient }

var _ backend = (*redisServer)(nil)

func newRedis(s Source, log *zap.Logger, dial files.Dial) *redisServer {
	r, timeout := s.Redis, time.Duration(s.Timeout)
	options := &goredis.UniversalOptions{
		Addrs: r.Addresses, IsClusterMode: r.Cluster, MasterName: r.Master, DB: r.Database,
		ClientName: "setpoint-samples", DisableIdentity: true, Protocol: 2,
		// A query is tried once: the next reconcile tries again.
		MaxRetries: -1, DialerRetries: 1,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
		ContextTimeoutEnabled:    true,
		PoolSize:                 s.Concurrency,
		PipelinePoolSize:         -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if r.PasswordFile != "" {
		password := newSecretFile("passwordFile", r.PasswordFile, log)
		options.CredentialsProviderContext = func(context.Context) (string, string, error) {
			text, err := password.read()
			return r.Username, text, err
		}
	}
	if r.TLS != nil {
		dial = dial.TLS(r.TLS.config)
	}
	dial = dial.Within(timeout)
	options.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return newRedisConn(conn, s.MaxBytes), nil
	}
	return &redisServer{goredis.NewUniversalClient(options)}
}

func (b *redisServer) close() { _ = b.client.Close() }

// maxKeyLength bounds keys and names of groups.
const maxKeyLength = 1024

func (b *redisServer) check(q Query) problems {
	var p problems
	kinds := 0
	for _, field := range []struct{ name, key string }{{"list", q.List}, {"sortedSet", q.SortedSet}, {"stream", q.Stream}} {
		if field.key != "" {
			kinds++
			p.required(field.name, field.key, maxKeyLength)
		}
	}
	if kinds != 1 {
		p.add("", "must have exactly one of list, sortedSet and stream")
	}
	if q.Stream != "" {
		p.required("group", q.Group, maxKeyLength)
	} else if q.Group != "" || q.Pending {
		p.add("stream", "is required with group and pending")
	}
	for _, field := range []struct{ name, score string }{{"minScore", q.MinScore}, {"maxScore", q.MaxScore}} {
		if field.score == "" {
			continue
		}
		if q.SortedSet == "" {
			p.add(field.name, "applies to a sortedSet only")
		}
		if n, err := strconv.ParseFloat(strings.TrimPrefix(field.score, "("), 64); err != nil || math.IsNaN(n) {
			p.add(field.name, "must be a number, -inf or +inf; with ( before it the score itself is left out")
		}
	}
	if q.EmptyIsZero {
		p.add("emptyIsZero", "does not apply here: Redis deletes empty lists and sets, so a missing one has length 0, and a stream without the group is an error")
	}
	return p
}

func (b *redisServer) request(q Query) string {
	switch {
	case q.List != "":
		return "LLEN " + q.List
	case q.SortedSet != "":
		lowest, highest := q.scores()
		return "ZCOUNT " + strconv.Quote(lowest) + " " + strconv.Quote(highest) + " " + q.SortedSet
	}
	return "XINFO GROUPS " + q.Stream // for all its groups
}

// scores returns the score bounds of a sorted set's members that count.
func (q Query) scores() (lowest, highest string) {
	lowest, highest = "-inf", "+inf"
	if q.MinScore != "" {
		lowest = q.MinScore
	}
	if q.MaxScore != "" {
		highest = q.MaxScore
	}
	return lowest, highest
}

// reading is an answer of Redis: a length, or the groups of a stream.
type reading struct {
	length int64
	groups []streamGroup
	at     time.Time
}

func (b *redisServer) ask(ctx context.Context, q Query) (any, error) {
	var (
		r   reading
		err error
	)
	switch {
	case q.List != "":
		r.length, err = b.client.LLen(ctx, q.List).Result()
	case q.SortedSet != "":
		lowest, highest := q.scores()
		if lowest == "-inf" && highest == "+inf" {
			r.length, err = b.client.ZCard(ctx, q.SortedSet).Result()
		} else {
			r.length, err = b.client.ZCount(ctx, q.SortedSet, lowest, highest).Result()
		}
	default:
		// The driver's own command returns 0 for a lag that an old Redis does not report.
		command := goredis.NewCmd(ctx, "XINFO", "GROUPS", q.Stream)
		command.SetFirstKeyPos(2)
		_ = b.client.Process(ctx, command)
		var answer any
		if answer, err = command.Result(); err == nil {
			r.groups, err = parseGroups(answer)
		}
	}
	if err != nil {
		return nil, redisFailure(err)
	}
	r.at = time.Now()
	return r, nil
}

// redisFailure converts an error of the driver. It quotes only the first word of the server's
// text: the error for an unknown command contains the arguments, and those of AUTH are the
// password.
func redisFailure(err error) error {
	var (
		own  *failure
		said goredis.Error
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, goredis.ErrPoolTimeout):
		return failed(Timeout, "no connection in time")
	case errors.As(err, &said):
		code, _, _ := strings.Cut(said.Error(), " ")
		hints := map[string]string{
			"WRONGTYPE": "the key has another type",
			"NOPERM":    "its user lacks the permission: it needs LLEN, ZCARD, ZCOUNT and XINFO on the key",
			"NOAUTH":    "it requires a password: set passwordFile",
			"WRONGPASS": "check username and passwordFile",
			"LOADING":   "it is starting",
			"ERR":       "of a stream: is there one at the key?",
		}
		if hint, ok := hints[code]; ok {
			return failed(Refused, "it answered %s: %s", code, hint)
		}
		return failed(Refused, "it answered with an error")
	}
	return err
}

// streamGroup is a consumer group in XINFO GROUPS.
type streamGroup struct {
	name string
	// lag is the number of entries still to be delivered; nil: Redis does not know, for example
	// after entries ahead of the group were deleted, or if the group was created amid the
	// stream.
	lag *int64
	// tellsLag is false before Redis 7.
	tellsLag bool
	// pending is the number of entries delivered and not acknowledged.
	pending int64
}

var errGroups = failed(Unusable, "the answer is not what XINFO GROUPS answers")

// parseGroups parses an answer of XINFO GROUPS, in either protocol.
func parseGroups(answer any) ([]streamGroup, error) {
	list, ok := answer.([]any)
	if !ok {
		return nil, errGroups
	}
	groups := make([]streamGroup, len(list))
	for i, from := range list {
		var fields []any // alternating names and values
		switch from := from.(type) {
		case []any:
			fields = from
		case map[any]any:
			for name, v := range from {
				fields = append(fields, name, v)
			}
		}
		for ; len(fields) >= 2; fields = fields[2:] {
			number, isNumber := fields[1].(int64)
			switch fields[0] {
			case "name":
				groups[i].name, _ = fields[1].(string)
			case "pending":
				groups[i].pending = number
				if !isNumber {
					return nil, errGroups
				}
			case "lag":
				groups[i].tellsLag = true
				if isNumber {
					groups[i].lag = &number
				}
			}
		}
		if groups[i].name == "" {
			return nil, errGroups
		}
	}
	return groups, nil
}

func (b *redisServer) values(q Query, answer any) ([]value, error) {
	r := answer.(reading)
	length := r.length
	if q.Stream != "" {
		i := slices.IndexFunc(r.groups, func(g streamGroup) bool { return g.name == q.Group })
		if i < 0 {
			return nil, failed(Invalid, "the stream has no consumer group of that name")
		}
		switch g := r.groups[i]; {
		case !g.tellsLag:
			return nil, failed(Invalid, "it reports no lag: that needs Redis 7.0 or later")
		case g.lag == nil:
			return nil, failed(Invalid, "it does not know the group's lag: unread entries were deleted, or the group was created amid the stream; it knows the lag again when the group has passed that point")
		case q.Pending:
			length = *g.lag + g.pending
		default:
			length = *g.lag
		}
	}
	v := value{Sample: Sample{Timestamp: r.at, Value: *resource.NewQuantity(length, resource.DecimalSI)}}
	switch {
	case length < 0:
		v.err = errNegative
	case length > math.MaxInt64/1000:
		v.err = errTooLarge
	}
	return []value{v}, nil
}
