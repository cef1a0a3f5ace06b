package controllers

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

const (
	// developmentKeyFile holds, in the Secret of development token keys, an HS256 secret; the gateway tells it by its ending.
	developmentKeyFile = "development.hs256"
	// secretTrust is how long a Secret that was seen is taken to be there.
	secretTrust = 5 * time.Minute
)

func (s *scene) seedSecretName() string {
	if s.world.Spec.SeedSecretName != "" {
		return s.world.Spec.SeedSecretName
	}
	return v1alpha1.DefaultSeedSecretName(s.world.Name)
}

func (s *scene) tokenKeysSecretName() string {
	if s.world.Spec.Gateway.TokenKeysSecretName != "" {
		return s.world.Spec.Gateway.TokenKeysSecretName
	}
	return s.world.Name + "-token-keys"
}

// developmentTokens tells whether anybody who may read a Secret of the namespace can sign players' tokens.
func (s *scene) developmentTokens() bool { return s.world.Spec.Gateway.TokenKeysSecretName == "" }

// ensureSecrets makes the seed and the development token keys where the spec names none, and sees to it that those it names
// exist. Secrets are never overwritten: another seed is another terrain.
func (r *WorldReconciler) ensureSecrets(ctx context.Context, s *scene) error {
	if err := r.ensureSecret(ctx, s, s.seedSecretName(), s.world.Spec.SeedSecretName == "", v1alpha1.SeedKey, newSeed); err != nil {
		return err
	}
	key := ""
	if s.developmentTokens() {
		key = developmentKeyFile
	}
	return r.ensureSecret(ctx, s, s.tokenKeysSecretName(), s.developmentTokens(), key, newDevelopmentKey)
}

// ensureSecret looks for a Secret and a key in it, and makes it if ours is the naming. An empty key means any.
func (r *WorldReconciler) ensureSecret(ctx context.Context, s *scene, name string, ours bool, key string, generate func() ([]byte, error)) error {
	if s.now.Sub(s.memory.secrets[name]) < secretTrust {
		return nil
	}
	found := &corev1.Secret{}
	err := r.Live.Get(ctx, s.key(name), found)
	if apierrors.IsNotFound(err) && ours {
		err = r.createSecret(ctx, s, name, key, generate)
		found = nil
	}
	switch {
	case apierrors.IsNotFound(err):
		return &blocked{v1alpha1.ReasonSecretMissing, fmt.Sprintf("Secret %s does not exist. Create it in namespace %s.", name, s.world.Namespace)}
	case err != nil:
		return fmt.Errorf("reading secret %s: %w", name, err)
	case found != nil && key != "" && len(found.Data[key]) == 0:
		return &blocked{v1alpha1.ReasonSecretMissing, fmt.Sprintf("Secret %s has no key %q. Add it.", name, key)}
	case found != nil && len(found.Data) == 0:
		return &blocked{v1alpha1.ReasonSecretMissing, fmt.Sprintf("Secret %s is empty. Add a public key (PEM) or a JSON Web Key Set.", name)}
	}
	s.memory.secrets[name] = s.now
	return nil
}

func (r *WorldReconciler) createSecret(ctx context.Context, s *scene, name, key string, generate func() ([]byte, error)) error {
	content, err := generate()
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.world.Namespace, Labels: s.labels()},
		Data:       map[string][]byte{key: content},
	}
	if key == v1alpha1.SeedKey { // outlives the World, like the volume: the stored entities stand on this terrain
		s.notify(noticeSeedMade(name))
	} else {
		secret.OwnerReferences = []metav1.OwnerReference{s.ownerReference()}
		s.notify(noticeDevelopmentTokens(name))
	}
	return r.Create(ctx, secret)
}

// newSeed is a terrain seed: 32 random bytes in hexadecimal.
func newSeed() ([]byte, error) {
	raw := make([]byte, 32)
	if _, err := rand.Read(raw); err != nil {
		return nil, fmt.Errorf("making a seed: %w", err)
	}
	return []byte(hex.EncodeToString(raw)), nil
}

// newDevelopmentKey is a random secret of 64 hexadecimal characters: every byte counts, and it can be copied by hand.
func newDevelopmentKey() ([]byte, error) { return newSeed() }

// storeSecretName is the Secret of a managed store's password.
func storeSecretName(world string) string { return v1alpha1.StoreName(world) }

// ensureStoreSecret makes the password of a managed store: for clients as it is, for the server in the words of its
// configuration. It is never overwritten.
func (r *WorldReconciler) ensureStoreSecret(ctx context.Context, s *scene) error {
	name := storeSecretName(s.world.Name)
	if s.now.Sub(s.memory.secrets[name]) < secretTrust {
		return nil
	}
	found := &corev1.Secret{}
	err := r.Live.Get(ctx, s.key(name), found)
	if apierrors.IsNotFound(err) {
		err = r.createStoreSecret(ctx, s, name)
		found = nil
	}
	switch {
	case err != nil:
		return fmt.Errorf("reading secret %s: %w", name, err)
	case found != nil && !s.owns(found):
		return conflict("Secret", name)
	}
	for _, key := range []string{v1alpha1.PasswordKey, storeConfigKey} {
		if found != nil && len(found.Data[key]) == 0 {
			return &blocked{v1alpha1.ReasonSecretMissing, fmt.Sprintf(
				"Secret %s has no key %q. Add it, or delete the Secret and then pod %s-0: both are made anew.", name, key, name)}
		}
	}
	s.memory.secrets[name] = s.now
	return nil
}

func (r *WorldReconciler) createStoreSecret(ctx context.Context, s *scene, name string) error {
	password, err := newSeed()
	if err != nil {
		return err
	}
	return r.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: s.world.Namespace, Labels: s.labels(), OwnerReferences: []metav1.OwnerReference{s.ownerReference()},
		},
		Data: map[string][]byte{v1alpha1.PasswordKey: password, storeConfigKey: fmt.Appendf(nil, "requirepass %s\n", password)},
	})
}

// learnTerrain reads the seed once, for its mark. The seed of a World never changes.
func (r *WorldReconciler) learnTerrain(ctx context.Context, s *scene) error {
	if s.memory.terrain != "" {
		return nil
	}
	secret := &corev1.Secret{}
	if err := r.Live.Get(ctx, s.key(s.seedSecretName()), secret); err != nil {
		return fmt.Errorf("reading secret %s: %w", s.seedSecretName(), err)
	}
	seed := secret.Data[v1alpha1.SeedKey]
	if len(seed) == 0 {
		return &blocked{v1alpha1.ReasonSecretMissing, fmt.Sprintf("Secret %s has no key %q. Add it.", s.seedSecretName(), v1alpha1.SeedKey)}
	}
	s.memory.terrain = terrainMark(seed)
	return nil
}
