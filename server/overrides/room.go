package overrides

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/target"
)

// Names of limits in the API.
const (
	limitOfPlace          = "maxOverrides"
	limitOfCluster        = "maxOverridesOfCluster"
	limitOfBytes          = "maxOverrideBytes"
	limitOfNamespace      = "maxOverridesOfNamespace"
	limitOfNamespaceBytes = "maxOverrideBytesOfNamespace"
	limitOfAuthor         = "maxOverridesOfAuthor"
	limitOfAuthorBytes    = "maxOverrideBytesOfAuthor"
)

// taken is what some overrides take of a record.
type taken struct{ count, bytes int }

func (t *taken) add(bytes int) { t.count, t.bytes = t.count+1, t.bytes+bytes }

// bytesOf is what an override takes of a record.
func bytesOf(o *setpointv1.Override) int {
	const field = 1 // of the list
	return protowire.SizeTag(field) + protowire.SizeBytes(proto.Size(o))
}

// room returns an error if a cluster's overrides have no room for another one, of a place. One of the cluster as a whole
// may take all that is left. Those of namespaces leave it a reserve, those of one namespace the others half of the rest,
// and those of one author half of what the others' leave: so none, with however many namespaces, takes all, and each
// further one finds a part.
func room(all []*setpointv1.Override, place target.Place, created *setpointv1.Override) error {
	var total, ofPlace, ofNamespace, ofAuthor, ofAuthorHere taken
	for _, o := range all {
		bytes := bytesOf(o)
		total.add(bytes)
		if o.GetAuthor() == created.GetAuthor() {
			ofAuthor.add(bytes)
		}
		p, _, ok := target.ParseOverride(o.GetName())
		if ok && p == place {
			ofPlace.add(bytes)
		}
		if ok && p.Namespace == place.Namespace {
			ofNamespace.add(bytes)
			if o.GetAuthor() == created.GetAuthor() {
				ofAuthorHere.add(bytes)
			}
		}
	}
	most, asked := taken{MostOfCluster, MostBytes}, bytesOf(created)
	if place.Namespace != "" {
		most = taken{MostOfCluster - ReservedOfCluster, MostBytes - ReservedBytes}
	}
	share := taken{(most.count - total.count + ofAuthor.count) / 2, (most.bytes - total.bytes + ofAuthor.bytes) / 2}
	// What others have is not told: it may be another tenant's.
	full := func(limit string, most int, format string, args ...any) error {
		return &FullError{limit, most, fmt.Sprintf(format, args...)}
	}
	by := "those of the same author"
	if author := created.GetAuthor(); author != "" {
		by = fmt.Sprintf("those of author %q", author)
	}
	const ofShare = "%s in cluster %q would %s, which is more than the author's share, half of what others leave of %d: delete some of that author"
	const ofBytes = "the overrides of %s would take more than %d bytes%s: this one takes %d, %s in it %d; delete some, or shorten reasons"
	switch {
	case ofPlace.count >= MostOfPlace:
		return full(limitOfPlace, MostOfPlace, "%s has %d overrides of its own, as many as there may be: delete some", place, MostOfPlace)
	case total.count >= most.count:
		return full(limitOfCluster, MostOfCluster, "cluster %q has %d overrides, and %d places are for those of the cluster as a whole: delete some, or override the cluster",
			place.Cluster, most.count, ReservedOfCluster)
	case total.bytes+asked > most.bytes:
		return full(limitOfBytes, most.bytes, ofBytes, fmt.Sprintf("cluster %q", place.Cluster), most.bytes, "", asked, by, ofAuthor.bytes)
	case place.Namespace == "":
		return nil
	case ofNamespace.count >= MostOfNamespace:
		return full(limitOfNamespace, MostOfNamespace, "namespace %q has %d overrides, as many as there may be: delete some", place.Namespace, MostOfNamespace)
	case ofNamespace.bytes+asked > MostBytesOfNamespace:
		return full(limitOfNamespaceBytes, MostBytesOfNamespace, ofBytes, fmt.Sprintf("namespace %q", place.Namespace), MostBytesOfNamespace, ", a namespace's share", asked, by, ofAuthorHere.bytes)
	case created.GetAuthor() == "": // without authentication all callers are one
		return nil
	case ofAuthor.count+1 > share.count:
		return full(limitOfAuthor, most.count/2, ofShare, by, place.Cluster, fmt.Sprintf("be %d", ofAuthor.count+1), most.count)
	case ofAuthor.bytes+asked > share.bytes:
		return full(limitOfAuthorBytes, most.bytes/2, ofShare+", or shorten reasons", by, place.Cluster, fmt.Sprintf("take %d bytes", ofAuthor.bytes+asked), most.bytes)
	}
	return nil
}
