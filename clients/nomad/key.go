package nomad

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/setpoint-dev/setpoint/clients/agent"
)

// Kind is the kind of all objects.
const Kind = "TaskGroup"

// maxName bounds a name, bytes, so that with agent.ShadowSuffix it fits into the service's 253.
const maxName = 240

// KeyOf is the key of a task group. Its name is "JOB.GROUP", in which letters, digits, "-" and
// "_" stay (except for a leading "-" of the group) and any other byte becomes ".-" with two
// hexadecimal digits: group web of job etl/load is "etl.-2fload.web". Names are unique within a
// namespace. A name that would be too long ends in a checksum instead.
func KeyOf(g Group) agent.Key {
	name := escape(g.Job, false) + "." + escape(g.Name, true)
	if len(name) > maxName {
		sum := sha256.Sum256([]byte(name))
		name = name[:maxName-3-2*16] + ".-h" + hex.EncodeToString(sum[:16])
	}
	return agent.Key{Kind: Kind, Namespace: g.Namespace, Name: name}
}

func escape(part string, leading bool) string {
	var out strings.Builder
	for i := range len(part) {
		switch c := part[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-' && (i > 0 || !leading):
			out.WriteByte(c)
		default:
			out.WriteString(".-" + hex.EncodeToString([]byte{c}))
		}
	}
	return out.String()
}
