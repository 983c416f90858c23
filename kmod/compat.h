/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences between kernels, and nothing else. Kbuild looks for each in the headers that it
 * builds against and defines HAVE_*; version numbers are not asked, distributions backport.
 */
#ifndef KVSWAP_COMPAT_H
#define KVSWAP_COMPAT_H

#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>

/* 6.0 made the operation and flags of a bio a type of their own. */
#ifndef HAVE_BLK_OPF_T
#define blk_opf_t unsigned int
#endif

/* 5.18 gave bio_init() the device and the operation. */
static inline void kvswap_bio_init(struct bio *bio, struct block_device *bdev, struct bio_vec *vecs,
				   unsigned short nr, blk_opf_t opf)
{
#ifdef HAVE_BIO_INIT_BDEV
	bio_init(bio, bdev, vecs, nr, opf);
#else
	bio_init(bio, vecs, nr);
	bio_set_dev(bio, bdev);
	bio->bi_opf = opf;
#endif
}

/*
 * The same, for the device and cgroup of another bio: what bio_set_dev() does in two steps since
 * 5.12.
 */
static inline void kvswap_bio_init_like(struct bio *bio, struct bio *like, struct bio_vec *vecs,
					unsigned short nr, blk_opf_t opf)
{
#ifdef HAVE_BIO_INIT_BDEV
	bio_init(bio, NULL, vecs, nr, opf);
	bio->bi_bdev = like->bi_bdev;
	bio_clone_blkg_association(bio, like);
#else
	bio_init(bio, vecs, nr);
	bio_copy_dev(bio, like);
	bio->bi_opf = opf;
#endif
}

/* 5.16 lets a plug know how many requests will come, so that tags are had in one go. */
static inline void kvswap_plug_expect(u32 nr)
{
#ifdef HAVE_PLUG_NR_IOS
	if (current->plug)
		current->plug->nr_ios = min_t(u32, nr, U8_MAX);
#endif
}

/* 6.3 took direct writes to vm_flags away. */
static inline void kvswap_vm_flags(struct vm_area_struct *vma, unsigned long set,
				   unsigned long clear)
{
#ifdef HAVE_VM_FLAGS_SET
	vm_flags_mod(vma, set, clear);
#else
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
#endif
}

/* 5.16 dropped the second result of ki_complete(). */
#ifdef HAVE_KI_COMPLETE_RET2
#define KVSWAP_KI_COMPLETE_ARGS struct kiocb *iocb, long ret, long ret2
#else
#define KVSWAP_KI_COMPLETE_ARGS struct kiocb *iocb, long ret
#endif

/* 6.6 has kiocb_start_write(): freeze protection that the completion, elsewhere, gives back. */
static inline void kvswap_write_begin(struct kiocb *iocb)
{
#ifdef HAVE_KIOCB_START_WRITE
	kiocb_start_write(iocb);
#else
	struct super_block *sb = file_inode(iocb->ki_filp)->i_sb;

	sb_start_write(sb);
	__sb_writers_release(sb, SB_FREEZE_WRITE);
#endif
}

static inline void kvswap_write_end(struct kiocb *iocb)
{
#ifdef HAVE_KIOCB_START_WRITE
	kiocb_end_write(iocb);
#else
	struct super_block *sb = file_inode(iocb->ki_filp)->i_sb;

	__sb_writers_acquired(sb, SB_FREEZE_WRITE);
	sb_end_write(sb);
#endif
}

/*
 * Exclusive use of a block device: 6.9 hands out a file, 6.7 handed out a handle, 6.5 took the
 * holder at the end as well, and before that the mode said it. kvswap_bdev_claim() returns what
 * kvswap_bdev_release() wants.
 */
#if defined(HAVE_BDEV_FILE_OPEN)
static inline void *kvswap_bdev_claim(dev_t dev, bool write, void *holder,
				      struct block_device **bdev)
{
	blk_mode_t mode = BLK_OPEN_READ | (write ? BLK_OPEN_WRITE : 0);
	struct file *file = bdev_file_open_by_dev(dev, mode, holder, NULL);

	if (!IS_ERR(file))
		*bdev = file_bdev(file);
	return file;
}

static inline void kvswap_bdev_release(void *claim, bool write, void *holder)
{
	bdev_fput(claim);
}
#elif defined(HAVE_BDEV_OPEN)
static inline void *kvswap_bdev_claim(dev_t dev, bool write, void *holder,
				      struct block_device **bdev)
{
	blk_mode_t mode = BLK_OPEN_READ | (write ? BLK_OPEN_WRITE : 0);
	struct bdev_handle *handle = bdev_open_by_dev(dev, mode, holder, NULL);

	if (!IS_ERR(handle))
		*bdev = handle->bdev;
	return handle;
}

static inline void kvswap_bdev_release(void *claim, bool write, void *holder)
{
	bdev_release(claim);
}
#elif defined(HAVE_BLK_MODE_T)
static inline void *kvswap_bdev_claim(dev_t dev, bool write, void *holder,
				      struct block_device **bdev)
{
	blk_mode_t mode = BLK_OPEN_READ | (write ? BLK_OPEN_WRITE : 0);

	*bdev = blkdev_get_by_dev(dev, mode, holder, NULL);
	return *bdev;
}

static inline void kvswap_bdev_release(void *claim, bool write, void *holder)
{
	blkdev_put(claim, holder);
}
#else
static inline void *kvswap_bdev_claim(dev_t dev, bool write, void *holder,
				      struct block_device **bdev)
{
	*bdev = blkdev_get_by_dev(dev, FMODE_EXCL | FMODE_READ | (write ? FMODE_WRITE : 0), holder);
	return *bdev;
}

static inline void kvswap_bdev_release(void *claim, bool write, void *holder)
{
	blkdev_put(claim, FMODE_EXCL | FMODE_READ | (write ? FMODE_WRITE : 0));
}
#endif

#endif
