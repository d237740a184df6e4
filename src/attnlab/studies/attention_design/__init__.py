"""What can one query do with given keys?"""
