//! All buckets and objects of a server.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use super::content::Content;
use super::disk::{Change, Disk};
use super::error::{GcsError, Kind, Result};
use super::listing::{Listing, Query, list};
use super::object::{
    Attributes, BucketMeta, Conditions, Digests, Expected, Object, ObjectMeta, check_bucket_name,
    check_object_name,
};
use super::uploads::Uploads;
use crate::store::micros_now;

/// Sources of a composed object at most.
const MAX_SOURCES: usize = 32;

/// A bucket and its objects by name.
#[derive(Debug, Clone)]
pub(super) struct Bucket {
    pub(super) meta: BucketMeta,
    pub(super) objects: BTreeMap<String, Arc<Object>>,
}

pub(super) type Buckets = BTreeMap<String, Bucket>;

/// Buckets and objects, in memory or in a directory.
#[derive(Debug, Default)]
pub struct Objects {
    state: RwLock<State>,
    disk: Option<Disk>,
    pub(super) uploads: Uploads,
}

#[derive(Debug, Default)]
struct State {
    buckets: Buckets,
    /// The newest generation so far; each is larger than all before.
    generation: i64,
}

/// An object that is to be written.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct New {
    pub(crate) name: String,
    pub(crate) attributes: Attributes,
    pub(crate) conditions: Conditions,
    pub(crate) expected: Expected,
}

impl Objects {
    /// The objects in a directory, which is made if it is not there. Every change
    /// that was acknowledged is in it.
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        let (disk, buckets, generation) = Disk::open(directory)?;
        let uploads = Uploads::open(&directory.join("uploads"), |bucket, name| {
            let object = buckets.get(bucket)?.objects.get(name)?;
            Some(object.meta.clone())
        })?;
        Ok(Self {
            state: RwLock::new(State {
                buckets,
                generation,
            }),
            disk: Some(disk),
            uploads,
        })
    }

    /// The bucket.
    pub(crate) fn bucket(&self, name: &str) -> Result<BucketMeta> {
        let state = self.state.read();
        let bucket = state.buckets.get(name);
        bucket
            .map(|bucket| bucket.meta.clone())
            .ok_or_else(|| GcsError::no_bucket(name))
    }

    /// All buckets whose names begin with `prefix`.
    pub(crate) fn buckets(&self, prefix: &str) -> Vec<BucketMeta> {
        let state = self.state.read();
        let all = state.buckets.values().map(|bucket| &bucket.meta);
        all.filter(|meta| meta.name.starts_with(prefix))
            .cloned()
            .collect()
    }

    /// Makes a bucket.
    pub(crate) fn create_bucket(&self, mut meta: BucketMeta) -> Result<BucketMeta> {
        check_bucket_name(&meta.name)?;
        let mut state = self.state.write();
        if state.buckets.contains_key(&meta.name) {
            return Err(GcsError::new(
                Kind::Conflict,
                "Your previous request to create the named bucket succeeded and you already own it.",
            ));
        }
        meta.created = micros_now();
        meta.updated = meta.created;
        self.write_down(&Change::PutBucket(meta.clone()))?;
        let bucket = Bucket {
            meta: meta.clone(),
            objects: BTreeMap::new(),
        };
        state.buckets.insert(meta.name.clone(), bucket);
        Ok(meta)
    }

    /// Changes what is known of a bucket.
    pub(crate) fn update_bucket(
        &self,
        name: &str,
        change: impl FnOnce(&mut BucketMeta) -> Result<()>,
    ) -> Result<BucketMeta> {
        let mut state = self.state.write();
        let bucket = state
            .buckets
            .get_mut(name)
            .ok_or_else(|| GcsError::no_bucket(name))?;
        let mut meta = bucket.meta.clone();
        change(&mut meta)?;
        meta.metageneration += 1;
        meta.updated = micros_now();
        self.write_down(&Change::PutBucket(meta.clone()))?;
        bucket.meta = meta.clone();
        Ok(meta)
    }

    /// Removes an empty bucket.
    pub(crate) fn delete_bucket(&self, name: &str) -> Result<()> {
        let mut state = self.state.write();
        let bucket = state
            .buckets
            .get(name)
            .ok_or_else(|| GcsError::no_bucket(name))?;
        if !bucket.objects.is_empty() {
            return Err(GcsError::new(
                Kind::NotEmpty,
                "The bucket you tried to delete is not empty.",
            ));
        }
        self.write_down(&Change::DropBucket(name.to_string()))?;
        state.buckets.remove(name);
        Ok(())
    }

    /// An object, of the generation that is asked for.
    pub(crate) fn object(
        &self,
        bucket: &str,
        name: &str,
        generation: Option<i64>,
    ) -> Result<Arc<Object>> {
        let state = self.state.read();
        let known = state
            .buckets
            .get(bucket)
            .ok_or_else(|| GcsError::no_bucket(bucket))?;
        known
            .objects
            .get(name)
            .filter(|object| generation.is_none_or(|g| g == object.meta.generation))
            .cloned()
            .ok_or_else(|| GcsError::no_object(bucket, name))
    }

    /// The objects of a bucket whose names begin with `prefix`, in order of name.
    pub(crate) fn objects(&self, bucket: &str, prefix: &str) -> Result<Vec<Arc<Object>>> {
        let state = self.state.read();
        let known = state
            .buckets
            .get(bucket)
            .ok_or_else(|| GcsError::no_bucket(bucket))?;
        Ok(known
            .objects
            .range(prefix.to_string()..)
            .take_while(|(name, _)| name.starts_with(prefix))
            .map(|(_, object)| Arc::clone(object))
            .collect())
    }

    /// A page of a bucket's objects.
    pub(crate) fn list(&self, bucket: &str, query: &Query) -> Result<Listing> {
        let state = self.state.read();
        let known = state
            .buckets
            .get(bucket)
            .ok_or_else(|| GcsError::no_bucket(bucket))?;
        Ok(list(&known.objects, query))
    }

    /// Writes an object.
    pub(crate) fn put(&self, bucket: &str, new: New, data: Bytes) -> Result<ObjectMeta> {
        self.put_of(bucket, new, data, None)
    }

    /// Writes the object that an upload in several requests has become. That it has is
    /// part of the same change.
    pub(crate) fn put_upload(
        &self,
        bucket: &str,
        new: New,
        data: Bytes,
        upload: &str,
    ) -> Result<ObjectMeta> {
        self.put_of(bucket, new, data, Some(upload.to_string()))
    }

    fn put_of(
        &self,
        bucket: &str,
        new: New,
        data: Bytes,
        upload: Option<String>,
    ) -> Result<ObjectMeta> {
        check_object_name(&new.name)?;
        // What is bound to fail should not take the space first.
        self.check(bucket, &new)?;
        let digests = Digests::of(&data);
        new.expected.check(&digests)?;
        let size = data.len() as u64;
        let content = self.stage(data)?;
        self.place(bucket, new, content, |meta| {
            meta.size = size;
            meta.crc32c = digests.crc32c;
            meta.md5 = Some(digests.md5);
            meta.upload = upload;
        })
    }

    fn check(&self, bucket: &str, new: &New) -> Result<()> {
        let state = self.state.read();
        let known = state
            .buckets
            .get(bucket)
            .ok_or_else(|| GcsError::no_bucket(bucket))?;
        new.conditions
            .check(known.objects.get(&new.name).map(|o| &o.meta))
    }

    fn stage(&self, data: Bytes) -> Result<Content> {
        match &self.disk {
            Some(disk) => disk.stage(&data),
            None => Ok(Content::Memory(data)),
        }
    }

    fn place(
        &self,
        bucket: &str,
        new: New,
        content: Content,
        describe: impl FnOnce(&mut ObjectMeta),
    ) -> Result<ObjectMeta> {
        let mut state = self.state.write();
        let generation = micros_now().max(state.generation + 1);
        let known = state
            .buckets
            .get_mut(bucket)
            .ok_or_else(|| GcsError::no_bucket(bucket))?;
        new.conditions
            .check(known.objects.get(&new.name).map(|o| &o.meta))?;
        let mut meta = ObjectMeta {
            name: new.name,
            generation,
            metageneration: 1,
            size: 0,
            crc32c: 0,
            md5: None,
            components: None,
            created: generation,
            updated: generation,
            attributes: new.attributes,
            upload: None,
        };
        describe(&mut meta);
        if let Some(file) = content.file() {
            let change = Change::PutObject(bucket.to_string(), Box::new(meta.clone()), file.number);
            // From here on the journal may name the file, also after an error.
            file.keep();
            self.write_down(&change)?;
        }
        let object = Arc::new(Object {
            meta: meta.clone(),
            content,
        });
        let old = known.objects.insert(meta.name.clone(), object);
        state.generation = generation;
        release(old.as_deref());
        if let Some(disk) = &self.disk {
            disk.shorten(&state.buckets, state.generation);
        }
        Ok(meta)
    }

    /// Puts objects one behind the other.
    pub(crate) fn compose(
        &self,
        bucket: &str,
        new: New,
        sources: &[Arc<Object>],
    ) -> Result<ObjectMeta> {
        check_object_name(&new.name)?;
        if sources.is_empty() || sources.len() > MAX_SOURCES {
            return Err(GcsError::invalid(format!(
                "The number of source components provided ({}) must be 1 to {MAX_SOURCES}.",
                sources.len()
            )));
        }
        let mut data = bytes::BytesMut::new();
        for source in sources {
            data.extend_from_slice(&source.content.read()?);
        }
        let components = sources
            .iter()
            .map(|source| source.meta.components.unwrap_or(1))
            .sum();
        let data = data.freeze();
        self.check(bucket, &new)?;
        let (digests, size) = (Digests::of(&data), data.len() as u64);
        let content = self.stage(data)?;
        self.place(bucket, new, content, |meta| {
            meta.size = size;
            meta.crc32c = digests.crc32c;
            meta.components = Some(components);
        })
    }

    /// Changes what a client says about an object.
    pub(crate) fn update(
        &self,
        bucket: &str,
        name: &str,
        conditions: &Conditions,
        change: impl FnOnce(&mut Attributes) -> Result<()>,
    ) -> Result<ObjectMeta> {
        let mut state = self.state.write();
        let known = state
            .buckets
            .get_mut(bucket)
            .ok_or_else(|| GcsError::no_bucket(bucket))?;
        let object = known
            .objects
            .get(name)
            .ok_or_else(|| GcsError::no_object(bucket, name))?;
        conditions.check(Some(&object.meta))?;
        let mut meta = object.meta.clone();
        change(&mut meta.attributes)?;
        meta.metageneration += 1;
        meta.updated = micros_now();
        let content = object.content.clone();
        if let Some(file) = content.file() {
            let change = Change::PutObject(bucket.to_string(), Box::new(meta.clone()), file.number);
            self.write_down(&change)?;
        }
        let object = Object {
            meta: meta.clone(),
            content,
        };
        known.objects.insert(name.to_string(), Arc::new(object));
        Ok(meta)
    }

    /// Removes an object.
    pub(crate) fn delete(
        &self,
        bucket: &str,
        name: &str,
        generation: Option<i64>,
        conditions: &Conditions,
    ) -> Result<()> {
        let mut state = self.state.write();
        let known = state
            .buckets
            .get_mut(bucket)
            .ok_or_else(|| GcsError::no_bucket(bucket))?;
        let object = known
            .objects
            .get(name)
            .filter(|object| generation.is_none_or(|g| g == object.meta.generation));
        conditions.check(object.map(|object| &object.meta))?;
        if object.is_none() {
            return Err(GcsError::no_object(bucket, name));
        }
        self.write_down(&Change::DropObject(bucket.to_string(), name.to_string()))?;
        let old = known.objects.remove(name);
        release(old.as_deref());
        Ok(())
    }

    fn write_down(&self, change: &Change) -> Result<()> {
        match &self.disk {
            Some(disk) => disk.append(change),
            None => Ok(()),
        }
    }
}

fn release(object: Option<&Object>) {
    if let Some(file) = object.and_then(|object| object.content.file()) {
        file.release();
    }
}
