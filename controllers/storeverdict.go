package controllers

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/node/store/connect"
)

// storePrefix is how the ids of all stores of a World begin: its name, and a few bits of its seed. So a World that was made anew
// finds its own store again, and one that only has the name of another, or another terrain, does not take it for its own.
func storePrefix(namespace, world, terrain string) string {
	return namespace + "/" + world + "/" + terrain + "/"
}

// newStoreID is an id that no store has yet.
func newStoreID(namespace, world, terrain string) string {
	return storePrefix(namespace, world, terrain) + strings.ToLower(rand.Text()[:12])
}

// terrainMark is 16 bits of the seed's hash: enough to tell two seeds apart that were not chosen to deceive, and too few to find
// out a seed by.
func terrainMark(seed []byte) string {
	sum := sha256.Sum256(seed)
	return hex.EncodeToString(sum[:2])
}

// identity is the World's store id: the one known, else the one that the store has, if it is this World's.
func (v storeView) identity(known string) string {
	if known != "" || v.finding == nil || !v.ours(v.finding.report.StoreID) {
		return known
	}
	return v.finding.report.StoreID
}

func (v storeView) ours(id string) bool {
	return v.terrain != "" && strings.HasPrefix(id, storePrefix(v.namespace, v.world, v.terrain))
}

// storeVerdict judges what the last look found.
func (s *scene) storeVerdict() verdict { return s.store.judge(s.storeID) }

// judge decides StoreReady. known is the World's store id, "" before the first. Messages hold no running numbers.
func (v storeView) judge(known string) verdict {
	f, pod := v.finding, v1alpha1.StoreName(v.world)+"-0"
	switch {
	case v.managed && !v.podRunning && known == "":
		return verdict{false, v1alpha1.ReasonProgressing, fmt.Sprintf(
			"waiting for pod %s to be ready. If that takes long: `kubectl describe pod %s` says why; it needs a volume.", pod, pod)}
	case v.managed && !v.podRunning:
		return verdict{false, v1alpha1.ReasonUnreachable, fmt.Sprintf(
			"pod %s is not ready. Nodes go on and save when it is back; `kubectl describe pod %s` and `kubectl logs %s` say what is wrong.", pod, pod, pod)}
	case f == nil:
		return verdict{false, v1alpha1.ReasonProgressing, "asking the store at " + v.url + "."}
	case f.missing != "":
		return verdict{false, v1alpha1.ReasonSecretMissing, f.missing}
	case f.err != nil:
		return v.judgeError(f.err)
	case f.report.Loading:
		return verdict{false, v1alpha1.ReasonProgressing, "the store at " + v.url + " is reading its data: wait."}
	case !f.report.Primary():
		return v.notPrimary()
	}
	if wrong := v.wrongStore(known); wrong != "" {
		return verdict{false, v1alpha1.ReasonWrongStore, wrong}
	}
	return v.judgeDurability(f.report)
}

func (v storeView) judgeError(err error) verdict {
	words := calmWords(err)
	switch {
	case errors.Is(err, connect.ErrCredentials) && v.managed:
		return verdict{false, v1alpha1.ReasonWrongPassword, fmt.Sprintf(
			"the store does not take the password in Secret %s: %s. If the Secret was changed or made anew: `kubectl delete pod %s-0` starts the store with it.",
			v.credentials, words, v1alpha1.StoreName(v.world))}
	case errors.Is(err, connect.ErrCredentials) && v.credentials == "":
		return verdict{false, v1alpha1.ReasonWrongPassword, fmt.Sprintf(
			"the store at %s asks for credentials: %s. Name a Secret with them in store.external.credentialsSecretName.", v.url, words)}
	case errors.Is(err, connect.ErrCredentials):
		return verdict{false, v1alpha1.ReasonWrongPassword, fmt.Sprintf(
			"the store at %s does not take the user or password in Secret %s, or the user may not do what is needed: %s. Correct the Secret, or allow the user all commands but the dangerous ones, and INFO.",
			v.url, v.credentials, words)}
	case errors.Is(err, connect.ErrUntrusted):
		return verdict{false, v1alpha1.ReasonUntrusted, fmt.Sprintf(
			"the certificate of the store at %s is not trusted: %s. Put the authority that signed it into key %q of Secret %s, and have it issued for the host in store.external.addresses.",
			v.url, words, v1alpha1.CAKey, v.ca)}
	case errors.Is(err, connect.ErrLoading):
		return verdict{false, v1alpha1.ReasonProgressing, "the store at " + v.url + " is reading its data: wait."}
	case errors.Is(err, connect.ErrReadOnly):
		return v.notPrimary()
	}
	return verdict{false, v1alpha1.ReasonUnreachable, fmt.Sprintf(
		"the store at %s does not answer: %s. Nodes go on and save when it is back; see that it runs and can be reached from this cluster.", v.url, words)}
}

func (v storeView) notPrimary() verdict {
	return verdict{false, v1alpha1.ReasonNotPrimary, fmt.Sprintf(
		"the store at %s is a replica and takes no writes. Name the primary in store.external.addresses, or use mode Sentinel, which follows it.", v.url)}
}

// wrongStore says why the store is not this World's, "" if it is.
func (v storeView) wrongStore(known string) string {
	id := v.finding.report.StoreID
	switch {
	case id == known, known == "" && v.ours(id):
		return ""
	case known == "":
		return fmt.Sprintf("the store at %s belongs to another World or another terrain: its key %s says %q. Nothing is started. "+
			"Name another store; or, if this World is to take over what is in there, delete that key.", v.url, connect.Key, id)
	case id == "":
		return fmt.Sprintf("the store at %s is empty or another one: it should have the id %q under the key %s and has none. "+
			"Nothing is started and nothing that runs is touched. Bring back the former volume or a backup; or, if what was in it may be lost, set that key to that id.", v.url, known, connect.Key)
	}
	return fmt.Sprintf("the store at %s is another one: it has the id %q, and this World's is %q. "+
		"Nothing is started and nothing that runs is touched. Correct spec.store, or bring back the former volume.", v.url, id, known)
}

func (v storeView) judgeDurability(r connect.Report) verdict {
	losing, risking := r.Losing(), r.Risking()
	switch {
	case losing != "":
		return verdict{false, v1alpha1.ReasonNotDurable, fmt.Sprintf("%s at %s cannot keep the entities: %s. Correct that.", r.Name(), v.url, losing)}
	case r.Development():
		return verdict{
			true, v1alpha1.ReasonDevelopmentStore,
			"the store is the embedded development server, which keeps NOTHING across its own restart: good for trying things out. Where pods are processes, install valkey-server or redis-server and begin anew.",
		}
	case risking != "" && v.managed:
		return verdict{false, v1alpha1.ReasonNotDurable, fmt.Sprintf(
			"the store is not as the operator configured it: %s. See who changed it; `kubectl delete pod %s-0` starts it as it should be.", risking, v1alpha1.StoreName(v.world))}
	case risking != "":
		return verdict{true, v1alpha1.ReasonNotDurable, fmt.Sprintf(
			"WARNING: %s at %s may lose what it acknowledged: %s. Set appendonly yes and appendfsync always, unless you rely on something else to keep it.", r.Name(), v.url, risking)}
	case r.Fsync == "":
		return verdict{true, v1alpha1.ReasonStoreReady, fmt.Sprintf(
			"%s at %s appends each write to a file. It does not let the operator ask when that is forced to the disk: see yourself that appendfsync is always.", r.Name(), v.url)}
	}
	return verdict{true, v1alpha1.ReasonStoreReady, fmt.Sprintf("%s at %s keeps every write that it acknowledges.", r.Name(), v.url)}
}

// restless is what differs from one error to the next of the same cause: our own port, and the time of day.
var restless = regexp.MustCompile(`[^ ]+->|current time [^ ]+ `)

// calmWords is the text of an error, the same for the same cause: it goes into a status that is written when it changes.
func calmWords(err error) string {
	const longest = 400
	words := strings.Join(strings.Fields(restless.ReplaceAllString(err.Error(), "")), " ")
	return cut(words, longest)
}

// storeFlags tell a zone node how to reach the store, and whose it must be.
func (v storeView) storeFlags(id string) []string {
	flags := []string{"--store=" + v.url, "--store-id=" + id}
	for _, f := range []struct{ key, flag string }{
		{v1alpha1.PasswordKey, "--store-password-file="},
		{v1alpha1.UsernameKey, "--store-username-file="},
		{v1alpha1.SentinelPasswordKey, "--store-sentinel-password-file="},
		{v1alpha1.SentinelUsernameKey, "--store-sentinel-username-file="},
	} {
		if v.finding != nil && slices.Contains(v.finding.keys, f.key) {
			flags = append(flags, f.flag+storeCredentialsMount+"/"+f.key)
		}
	}
	if v.ca != "" {
		flags = append(flags, "--store-ca-file="+storeCAMount+"/"+v1alpha1.CAKey)
	}
	return flags
}

// volumes are what the files in storeFlags come from. The kubelet keeps them current, so a changed password needs no restart.
func (v storeView) volumes() []corev1.Volume {
	var volumes []corev1.Volume
	if v.finding != nil && len(v.finding.keys) > 0 {
		credentials := secretVolume("store-credentials", v.credentials, "")
		for _, key := range v.finding.keys {
			credentials.Secret.Items = append(credentials.Secret.Items, corev1.KeyToPath{Key: key, Path: key})
		}
		volumes = append(volumes, credentials)
	}
	if v.ca != "" {
		volumes = append(volumes, secretVolume("store-ca", v.ca, v1alpha1.CAKey))
	}
	return volumes
}

func (v storeView) mounts() []corev1.VolumeMount {
	at := map[string]string{"store-credentials": storeCredentialsMount, "store-ca": storeCAMount}
	var mounts []corev1.VolumeMount
	for _, volume := range v.volumes() {
		mounts = append(mounts, corev1.VolumeMount{Name: volume.Name, MountPath: at[volume.Name], ReadOnly: true})
	}
	return mounts
}

// text is a value of a Secret without the ends of line that an editor left after it.
func text(value []byte) string { return strings.TrimRight(string(value), "\r\n") }

func objectMeta(key types.NamespacedName) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
}
