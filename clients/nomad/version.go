package nomad

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/clients/agent"
)

// versionEvery is how often the servers' versions are read: servers may be replaced one by one.
const versionEvery = 10 * time.Minute

// conditional is the first version that checks the JobModifyIndex of a count. Older servers
// ignore it, so that a count may overwrite one written after the job was read.
var conditional = [3]int{1, 8, 2}

// checkVersion checks the versions of the region's servers, if that was not done recently. Not
// being able to read them is no failure: it takes a capability that nothing else needs.
func (p *Platform) checkVersion(ctx context.Context) {
	if !p.versioned.IsZero() && time.Since(p.versioned) < versionEvery {
		return
	}
	p.versioned = time.Now()
	ctx, cancel := context.WithTimeout(ctx, p.options.ReadTimeout)
	defer cancel()
	warning, err := OldServers(ctx, p.client)
	if ctx.Err() != nil && err != nil {
		p.versioned = time.Time{}
		return
	}
	if err != nil {
		if statusOf(err) != http.StatusForbidden {
			p.versioned = time.Time{} // read them again with the next list
		}
		p.warnOfServers("", fmt.Sprintf("their versions are not known (the token needs node read); before %s they don't compare what a count is conditional on: %s", text(conditional), agent.Shorten(err.Error())))
		return
	}
	p.warnOfServers(warning, warning)
}

// OldServers returns a warning of servers of the region that write counts unconditionally; "": there
// are none.
func OldServers(ctx context.Context, client *api.Client) (warning string, err error) {
	var servers api.ServerMembers
	if _, err := client.Raw().Query("/v1/agent/members", &servers, (&api.QueryOptions{}).WithContext(ctx)); err != nil {
		return "", err
	}
	var old []string
	for _, m := range servers.Members {
		if m == nil || m.Status != "alive" || m.Tags["region"] != servers.ServerRegion {
			continue
		}
		if v, ok := parseVersion(m.Tags["build"]); ok && less(v, conditional) {
			old = append(old, fmt.Sprintf("%s is %s", m.Name, m.Tags["build"]))
		}
	}
	if len(old) == 0 {
		return "", nil
	}
	const most = 5
	if len(old) > most {
		old = append(old[:most], fmt.Sprintf("and %d more", len(old)-most))
	}
	return fmt.Sprintf("Nomad's servers are older than %s (%s) and don't compare what a count is conditional on: one that is written at the same time as somebody else's overwrites that",
		text(conditional), strings.Join(old, ", ")), nil
}

// warnOfServers sets a warning for each group, and logs a line if it changed.
func (p *Platform) warnOfServers(warning, line string) {
	p.outdated.Store(&warning)
	if line != "" && line != p.saidOfServers {
		p.options.Log.Warn("Nomad's servers", zap.String("problem", line))
	}
	p.saidOfServers = line
}

func text(v [3]int) string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

func less(a, b [3]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// parseVersion parses the numbers of a version such as 1.8.2 or 1.9.0-beta.1+ent.
func parseVersion(text string) (v [3]int, ok bool) {
	if end := strings.IndexAny(text, "-+"); end >= 0 {
		text = text[:end]
	}
	parts := strings.Split(text, ".")
	if len(parts) != len(v) {
		return v, false
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return v, false
		}
		v[i] = n
	}
	return v, true
}
